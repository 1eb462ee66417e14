"""The control side: plans sweeps, keeps the queues short, notices what is lost, counts progress."""
