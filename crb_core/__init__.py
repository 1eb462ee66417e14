"""Rules and records: what was measured, how it is scored. No queue, no engine, no network."""
