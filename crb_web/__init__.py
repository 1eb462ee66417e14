"""The read side: a versioned HTTP API and the pages that are made of it."""
