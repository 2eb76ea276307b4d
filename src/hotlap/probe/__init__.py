"""Measurement that looks at running code from outside: a line sampler and timers on modules."""
