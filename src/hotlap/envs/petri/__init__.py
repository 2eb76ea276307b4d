"""Timed Petri nets: `net.py` describes one, `reference.py` is what it does as an environment, `kernel.h` the same in C."""
