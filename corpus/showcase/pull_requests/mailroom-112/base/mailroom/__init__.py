"""Resolve and deliver queued notifications."""
