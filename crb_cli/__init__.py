"""The command line: one file a command group. It may import anything; nothing imports it."""
