"""Files of a run's folder beside `run.json` and `samples.jsonl`."""

from __future__ import annotations

SAMPLES = "samples.jsonl"
TRACED = "traced.json"  # which time the trace covers
STACKS = "stacks.json"  # what the sampler saw
KERNELS = "kernels.json"  # what the GPU ran in the traced window
SOURCES = "sources.json"  # user code that the sampler saw
EPISODES = "episodes.jsonl"  # of the last evaluation
