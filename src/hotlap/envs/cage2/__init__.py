"""CAGE Challenge 2, Scenario2: `reference.py` is the specification, `kernel.h` the same rules in C."""
