"""A small double-entry payments ledger."""

__version__ = "1.6.0"
