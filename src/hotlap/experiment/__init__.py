"""Experiments: interleaved runs, comparisons, sweeps, injected delays, growth, the gate, the learning check."""
