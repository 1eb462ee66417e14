"""The work side: takes steps, runs containers, asks judges."""
