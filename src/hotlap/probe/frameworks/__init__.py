"""One file per framework: everything that hotlap knows about it."""
