"""Scenarios: one or more hand-made profiles for nearly every cause."""

from dataclasses import replace

from hotlap.record.observed import OptimizerInfo
from tests.made_runs import (
    DEQUE,
    IN_LOOP,
    IN_STEP,
    KEPT_GRAPH,
    LEAKING,
    LEARNING,
    MANY,
    NET,
    PPO,
    PPO_COUNTS,
    ROWS_ONE_BY_ONE,
    SINGLE,
    SLOW_ENV,
    STORING,
    SUBPROCESSES,
    TORCH,
    TREE,
    TREE_SEARCH,
    TWO,
    WRAPPED,
    make_run,
    steps,
    worker,
)

CODE = {"train.py": LEARNING}
CUDA = replace(NET, device="cuda")
UTD = {
    "collect/act": 0.05,
    "collect/env_step": 0.05,
    "sample": 0.1,
    "update/loss": 0.3,
    "update/backward": 0.3,
    "update/optimizer": 0.15,
}


def _sampled(stage, stack, **changes):
    """A run of PPO in which the sampler saw two seconds of one stack."""
    return {"shares": PPO, "counts": PPO_COUNTS, "stacks": [(stage, stack, 2.0)], "sources": CODE} | changes


def _rising(stage):
    return lambda i: {stage: 1 + i / 4}


def _in(line, function="learn", *inner):
    return [(function, "train.py", line), *inner]


SCENARIOS = {
    "healthy": {"shares": PPO, "counts": PPO_COUNTS},
    "throttle": {"shares": PPO, "counts": PPO_COUNTS | {"slept_seconds@collect/env_step": 0.3 * 0.25}},
    "throttle-workers": {
        "shares": SUBPROCESSES,
        "counts": steps(16),
        "environments": MANY,
        "workers": worker(env_share=0.5, **{"slept_seconds@collect/env_step": 0.12}),
    },
    "render": _sampled("collect/env_step", [*IN_STEP, ("_render_frame", "env.py", 9)], sources={"train.py": SLOW_ENV}),
    "pandas": _sampled("collect/env_step", [*IN_STEP, ("loc", "pandas/core.py", 9)], sources={"train.py": SLOW_ENV}),
    "deepcopy": _sampled("collect/env_step", [*IN_STEP, ("deepcopy", "lib/copy.py", 9)], sources={"train.py": SLOW_ENV}),
    "slow-reset": {"shares": PPO | {"collect/env_reset": 0.2}, "counts": PPO_COUNTS},
    "wrappers": _sampled("collect/env_step", [("main", "train.py", 8), ("step", "train.py", 3)], sources={"train.py": WRAPPED}),
    "python-loop": {
        "shares": PPO | {"collect/env_step": 0.6, "update/backward": 0.05, "update/loss": 0.05, "update/optimizer": 0.02},
        "counts": PPO_COUNTS,
        "stacks": [("collect/env_step", IN_LOOP, 2.0)],
        "sources": {"train.py": SLOW_ENV},
    },
    "native-loop": {
        "shares": PPO,
        "counts": PPO_COUNTS,
        "stacks": [("collect/env_step", IN_LOOP, 2.0, 1.9)],
        "sources": {"train.py": SLOW_ENV},
    },
    "jax": _sampled("collect/env_step", [*IN_STEP, ("bind", "jax/_src/core.py", 9)], sources={"train.py": SLOW_ENV}),
    "payload": {
        "shares": SUBPROCESSES,
        "counts": steps(16),
        "environments": MANY,
        "workers": worker(ipc_bytes=400_000.0),
    },
    "straggler": {
        "shares": SUBPROCESSES,
        "counts": steps(16),
        "environments": MANY,
        "workers": worker(step_p99=60e-3, env_share=0.06, cpu_seconds=0.018),
    },
    "contention": {
        "shares": SUBPROCESSES,
        "counts": steps(8),
        "environments": MANY,
        "workers": worker(env_share=0.30, env_steps=1.0, cpu_seconds=0.012, step_median=90e-3, step_p99=95e-3),
    },
    "cheap": {
        "shares": PPO | {"collect/env_step": 0.1, "collect/wait": 0.4, "update/backward": 0.05, "update/loss": 0.05},
        "counts": steps(600) | {"forwards@collect/act": 300},
        "environments": TWO,
        "workers": worker(count=2, env_steps=300.0, step_median=2e-5, step_p99=3e-5, cpu_seconds=0.05),
    },
    "heavy-workers": {
        "shares": PPO | {"collect/env_step": 0.1, "collect/wait": 0.75, "update/backward": 0.05, "update/loss": 0.05},
        "counts": steps(20),
        "environments": TWO,
        "workers": worker(count=2, env_share=0.9, env_steps=10.0, step_median=27e-3, step_p99=28e-3, cpu_seconds=0.27),
    },
    "serial-heavy": {"shares": PPO | {"collect/env_step": 0.8}, "counts": steps(32), "stacks": [], "cores": 8.0},
    "actor-learner": {
        "shares": {"collect/env_step": 0.4, "update/backward": 0.4},
        "counts": steps(64),
        "scale": lambda i: {"update/backward": 2.0, "collect/env_step": 0.3} if i % 2 else {},
        "windows": 16,
        "environments": TWO,
        "workers": worker(count=2, step_median=lambda i: 5e-3 if i % 2 else 2e-3),
    },
    "broadcast": {
        "shares": SUBPROCESSES,
        "counts": steps(16) | {"ipc_bytes": 16 * 8 * 4e6},
        "nets": [replace(NET, parameters=1_000_000)],
        "environments": MANY,
        "workers": worker(),
    },
    "gpu-tiny": {"shares": PPO, "counts": PPO_COUNTS, "nets": [CUDA], "gpu_busy": 0.1},
    "launch-bound": {
        "shares": PPO,
        "counts": PPO_COUNTS,
        "nets": [replace(CUDA, parameters=5_000_000)],
        "gpu_busy": 0.4,
    },
    "no-amp": {"shares": PPO, "counts": PPO_COUNTS, "nets": [replace(CUDA, parameters=5_000_000)], "gpu_busy": 0.95},
    "clip-sync": _sampled(
        "update/optimizer",
        _in(4, "learn", ("clip_grad_norm_", "torch/nn/utils/clip_grad.py", 9)),
        counts=PPO_COUNTS | {"syncs@update/optimizer": 16},
        nets=[CUDA],
        phase=lambda i: "traced" if i == 3 else "measured",
    ),
    "hidden-sync": {
        "shares": PPO,
        "counts": PPO_COUNTS | {"syncs@update/loss": 64},
        "nets": [CUDA],
        "phase": lambda i: "traced" if i == 3 else "measured",
    },
    "gpu-sim": {
        "shares": PPO | {"collect/env_step/transfer": 0.1},
        "counts": PPO_COUNTS | {"bytes_to_host@collect/env_step": 1e6, "bytes_to_device@collect/env_step": 9e5},
        "nets": [CUDA],
    },
    "cache-flush": _sampled("update/loss", _in(28, "log", ("empty_cache", "torch/cuda/memory.py", 9))),
    "batch1": {
        "shares": PPO | {"collect/act": 0.4, "update/backward": 0.05, "update/loss": 0.05},
        "counts": PPO_COUNTS | {"forwards@collect/act": 4_096},
        "stacks": [("collect/act", _in(23, "act"), 2.0)],
        "sources": CODE,
    },
    "grad": _sampled("collect/act", _in(23, "act"), counts=PPO_COUNTS | {"gradient_forwards@collect/act": 128}),
    "validate": _sampled("collect/act", _in(23, "act", ("__init__", "torch/distributions/distribution.py", 9))),
    "few-envs": {
        "shares": PPO,
        "counts": PPO_COUNTS | {"forwards@collect/act": 4_096},
        "environments": SINGLE,
    },
    "push": {
        "shares": PPO | {"collect/store": 0.3, "update/backward": 0.05, "update/loss": 0.05},
        "counts": PPO_COUNTS | {"syncs@collect/store": 8_192},
        "stacks": [("collect/store", [("main", "train.py", 4)], 2.0)],
        "sources": {"train.py": STORING},
        "phase": lambda i: "traced" if i == 3 else "measured",
    },
    "deque": {
        "shares": UTD | {"sample": 0.4, "update/loss": 0.1, "update/backward": 0.1},
        "counts": PPO_COUNTS,
        "stacks": [("sample", [("learn", "train.py", 4), ("sample", "lib/random.py", 9)], 1.0), ("sample", _in(5), 1.0)],
        "sources": {"train.py": DEQUE},
        "scale": _rising("sample"),
        "windows": 20,
    },
    "tree": {
        "shares": UTD | {"sample": 0.4, "update/loss": 0.1, "update/backward": 0.1},
        "counts": PPO_COUNTS,
        "stacks": [("sample", [("main", "train.py", 14), ("sample", "train.py", 9), ("retrieve", "train.py", 4)], 2.0)],
        "sources": {"train.py": TREE},
    },
    "sampler-growth": {
        "shares": UTD | {"sample": 0.2, "update/loss": 0.2},
        "counts": PPO_COUNTS,
        "scale": _rising("sample"),
        "windows": 20,
    },
    "list-to-tensor": {
        "shares": UTD | {"sample": 0.4, "update/loss": 0.1, "update/backward": 0.1},
        "counts": PPO_COUNTS,
        "stacks": [("sample", _in(3), 2.0)],
        "sources": CODE,
    },
    "swap": {
        "shares": UTD | {"sample": 0.4, "update/loss": 0.1, "update/backward": 0.1},
        "counts": PPO_COUNTS | {"page_faults_disk": 1_000},
        "peak": 7_000_000_000,
    },
    "replay-h2d": {"shares": UTD | {"sample/transfer": 0.1}, "counts": PPO_COUNTS},
    "loss-loop": {
        "shares": UTD | {"update/loss": 0.4, "update/backward": 0.2},
        "counts": PPO_COUNTS | {"rows@update/loss": 16 * 128},
        "stacks": [
            ("update/loss", [("main", "train.py", 14), ("learn", "train.py", 6)], 3.0),
            ("update/loss", [("main", "train.py", 14), ("learn", "train.py", 7)], 1.0),
            ("update/backward", [("main", "train.py", 14), ("learn", "train.py", 7)], 2.0),
        ],
        "sources": {"train.py": ROWS_ONE_BY_ONE},
    },
    "tree-search": {
        "shares": {"update/loss": 0.2, "update/backward": 0.2},
        "counts": {"updates": 16},
        "stacks": [
            ("", [("main", "train.py", 16), ("run", "train.py", 4), ("select", "train.py", 8)], 3.0),
            ("", [("main", "train.py", 16), ("run", "train.py", 5), ("expand", "train.py", 11)], 2.0),
            ("update/backward", [("main", "train.py", 17), ("learn", "train.py", 21)], 2.0),
        ],
        "sources": {"train.py": TREE_SEARCH},
        "environments": (),
    },
    "gae": _sampled("advantage", _in(9, "gae"), shares=PPO | {"advantage": 0.2, "update/backward": 0.1}),
    "anomaly": {"shares": PPO, "counts": PPO_COUNTS, "torch": replace(TORCH, anomaly=True)},
    "recompile": _sampled(
        "update/loss", _in(4, "learn", ("run", "torch/_dynamo/eval.py", 9)), counts=PPO_COUNTS | {"compiled_graphs": 2}
    ),
    "compile-once": {
        "shares": PPO,
        "counts": PPO_COUNTS | {"compiled_graphs": lambda i: float(i < 40)},
        "windows": 60,
        "phase": lambda i: "warmup" if i < 40 else "measured",
    },
    "rnn": _sampled("update/loss", _in(14, "recurrent", ("forward", "torch/nn/modules/rnn.py", 9))),
    "param-loop": _sampled(
        "update/optimizer",
        _in(19, "soft_update"),
        optimizers=[OptimizerInfo("Adam", 12, foreach=False, fused=False)],
    ),
    "float64": {"shares": PPO, "counts": PPO_COUNTS, "nets": [replace(NET, dtype="float64")]},
    "float64-input": {"shares": PPO, "counts": PPO_COUNTS, "types": {"forward input": "float64", "observation": "float64"}},
    "tiny-minibatch": {
        "shares": {
            "collect/act": 0.08,
            "collect/env_step": 0.06,
            "advantage": 0.01,
            "update/loss": 0.35,
            "update/backward": 0.35,
            "update/optimizer": 0.15,
        },
        "counts": PPO_COUNTS
        | {
            "env_steps": 65,
            "updates": 20,
            "forwards@collect/act": 65,
            "rows@collect/act": 65,
            "forwards@update/loss": 20,
            "rows@update/loss": 640,
        },
        "nets": [replace(NET, parameters=401_000, widest=512, inputs=100, layers={"Linear": 12, "LayerNorm": 4})],
        "environments": SINGLE,
    },
    "utd": {"shares": UTD, "counts": steps(64) | {"updates": 100, "rows@update/loss": 100 * 64, "forwards@update/loss": 100}},
    "oversized": {
        "shares": UTD | {"sample": 0.01},
        "counts": PPO_COUNTS | {"rows@update/loss": 16 * 4_096},
        "nets": [replace(NET, parameters=4_000_000, widest=2_048)],
    },
    "torch-threads": {"shares": PPO, "counts": PPO_COUNTS | {"switches_forced": 90}, "torch": replace(TORCH, threads=16)},
    "worker-threads": {
        "shares": SUBPROCESSES,
        "counts": steps(16),
        "environments": MANY,
        "workers": worker(threads=8.0, **{"forwards@collect/act": 1.0}),
    },
    "cgroup": {"shares": PPO, "counts": PPO_COUNTS | {"throttled_seconds": 0.06}},
    "cv2": _sampled("collect/env_step", _in(36, "resize"), threads={"cv2": 16, "torch": 1}),
    "gil": _sampled("collect", _in(4, "learn", ("wait", "lib/threading.py", 9)), shares=PPO | {"collect": 0.3}),
    "logger": _sampled("log", _in(27, "log"), shares=PPO | {"log": 0.2, "update/backward": 0.05}),
    "evaluation": _sampled("evaluate", _in(32, "evaluate"), shares=PPO | {"evaluate": 0.3, "update/backward": 0.05}),
    "checkpoint": _sampled(
        "checkpoint",
        _in(4, "learn", ("save", "torch/serialization.py", 9)),
        shares=PPO | {"checkpoint": 0.2, "update/backward": 0.05},
    ),
    "env-leak": {
        "shares": PPO,
        "counts": PPO_COUNTS,
        "scale": _rising("collect/env_step"),
        "sources": {"train.py": LEAKING},
        "windows": 20,
    },
    "graph-retention": {
        "shares": PPO,
        "counts": PPO_COUNTS | {"gc_seconds": 0.01},
        "scale": _rising("update/backward"),
        "sources": {"train.py": KEPT_GRAPH},
        "windows": 20,
        "rss": lambda i: 1e8 + 1e7 * i,
    },
    "harder-states": {
        "shares": PPO,
        "counts": PPO_COUNTS | {"episodes": 10, "episode_steps": lambda i: 1_000.0 + 500 * i},
        "scale": _rising("collect/env_step"),
        "sources": {"train.py": SLOW_ENV},
        "windows": 20,
    },
    "swinging-states": {
        "shares": PPO,
        "counts": PPO_COUNTS,
        "scale": lambda i: {"collect/env_step": 4.0 if i // 5 % 2 else 1.0},
        "windows": 30,
    },
    "learning-starts": {
        "shares": PPO,
        "counts": PPO_COUNTS | {"updates": lambda i: 16 if i >= 10 else 0, "env_steps": lambda i: 4_096 if i >= 10 else 9_000},
        "windows": 30,
        "phase": lambda i: "warmup" if i < 11 else "measured",
    },
    "system": {
        "shares": PPO,
        "counts": PPO_COUNTS,
        "config": {"turbo": False, "num_envs": 64, "horizon": 64, "batch_size": 64, "hidden": [64, 64]},
        "cores": 4.0,
    },
}


def scenario(name, path):
    """The run of a scenario."""
    return make_run(path, **SCENARIOS[name])
