"""The HTTP API, one module a version."""
