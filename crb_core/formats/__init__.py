"""One module a file format, in and out."""
