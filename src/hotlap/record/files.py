"""Files of a run's folder beside `run.json` and `samples.jsonl`."""

from __future__ import annotations

SAMPLES = "samples.jsonl"
TRACED = "traced.json"  # which time the trace covers
STACKS = "stacks.json"  # what the sampler saw
KERNELS = "kernels.json"  # what the GPU ran in the traced window
SOURCES = "sources.json"  # user code that the sampler saw
WORKERS = "workers"  # a folder: samples of each worker process
LEARNERS = "learners"  # a folder: of each process that learns, a folder like this one
STOP = "stop"  # while a script runs: enough was measured in another of its processes or threads
SCRIPT_SAMPLES = "script.jsonl"  # of the script's own process, where others learn
EPISODES = "episodes.jsonl"  # of the last evaluation
