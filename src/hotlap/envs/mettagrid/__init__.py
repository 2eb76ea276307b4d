"""MettaGrid: `reference.py` is the specification, `kernel.h` the same rules in C."""
