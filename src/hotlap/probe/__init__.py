"""Measurement inside a script that knows nothing of it: hooks, a timeline, a line sampler. Standard library, Python 3.9."""
