"""TorchRL. A step returns a TensorDict, or two of which the first has the step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hotlap.core import stages
from hotlap.core.paths import STORE, TARGET
from hotlap.probe.framework import EnvironmentClass, Framework, VectorLayout
from hotlap.probe.results import StepReader, as_floats, which_of_tensor


def _next(result: Any, name: str) -> Any:
    """A tensor that the step led to; None if there is none."""
    first = result[0] if isinstance(result, tuple) else result
    return first.get(("next", name), None)


def _ended(env: Any, result: Any) -> Iterable[int]:
    return which_of_tensor(_next(result, "done"))


def _rewards(env: Any, result: Any) -> list[float]:
    reward = _next(result, "reward")
    return [0.0] if reward is None else as_floats(reward)


def _observation(result: Any) -> Any:
    return _next(result, "observation")


_OLD, _NEW = ("0.6", "0.11"), ("0.11", "0.15")  # collectors were one module until 0.10

FRAMEWORK = Framework(
    "torchrl",
    ("0.6", "0.15"),
    regions={
        "torchrl.data.replay_buffers.replay_buffers.base:ReplayBuffer.add": STORE,
        "torchrl.data.replay_buffers.replay_buffers.base:ReplayBuffer.extend": STORE,
        "torchrl.data.replay_buffers.replay_buffers.base:ReplayBuffer.sample": stages.SAMPLE,
        "torchrl.data.replay_buffers.replay_buffers.base:ReplayBuffer.update_priority": stages.SAMPLE,
        "torchrl.objectives.value.advantages:ValueEstimatorBase.__call__": stages.ADVANTAGE,
        "torchrl.objectives.utils:TargetNetUpdater.step": TARGET,
        "torchrl.collectors._base:BaseCollector.update_policy_weights_": stages.COLLECT,
        "torchrl.collectors.collectors:DataCollectorBase.update_policy_weights_": stages.COLLECT,
        "torchrl.envs.common:EnvBase.close": stages.COLLECT,
        "torchrl.record.loggers.common:Logger.log_scalar": stages.LOG,
    },
    phases={
        "torchrl.collectors._single:Collector.rollout": stages.COLLECT,
        "torchrl.collectors.collectors:SyncDataCollector.rollout": stages.COLLECT,
    },
    waits=("torchrl.envs.batched_envs:ParallelEnv._wait_for_workers",),
    environments=(
        EnvironmentClass(
            "torchrl.envs.common:EnvBase",
            steps=lambda env, *_: env.batch_size.numel() or 1,
            step_methods=("step", "step_and_maybe_reset"),
            reader=StepReader(_ended, _rewards, _observation),
            inner=("base_env", "_env", "_envs"),
        ),
    ),
    layouts=(VectorLayout("torchrl.envs", workers="ParallelEnv", one_process="SerialEnv"),),
    only={
        "torchrl.collectors._base:BaseCollector.update_policy_weights_": _NEW,
        "torchrl.collectors._single:Collector.rollout": _NEW,
        "torchrl.collectors.collectors:DataCollectorBase.update_policy_weights_": _OLD,
        "torchrl.collectors.collectors:SyncDataCollector.rollout": _OLD,
        "torchrl.envs.batched_envs:ParallelEnv._wait_for_workers": ("0.8", "0.15"),
    },
)
