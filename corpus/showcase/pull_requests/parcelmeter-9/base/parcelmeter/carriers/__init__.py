"""One module for each carrier, each with a function `offers`."""
