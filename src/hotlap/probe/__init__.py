"""Measurement that looks at running code from outside: hooks and a timeline for scripts, a line sampler, timers on modules."""
