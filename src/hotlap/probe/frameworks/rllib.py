"""RLlib. Its environments are Gymnasium's; how many steps there were, it knows best itself."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from hotlap.core import stages
from hotlap.core.counts import GATHERED_STEPS
from hotlap.core.paths import STORE, TARGET
from hotlap.probe.events import Events
from hotlap.probe.framework import Framework
from hotlap.probe.hooks.patching import wrap


def _count_runner(module: ModuleType, events: Events) -> None:
    """A vector step that resets an environment is not a step of it: the sampled batch says how many steps there were."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            events.phase(stages.COLLECT)
            counting, events.counting = events.counting, False
            try:
                episodes = original(*args, **kwargs)
            finally:
                events.counting = counting
            if events.active and counting:
                events.count_steps(sum(len(episode) for episode in episodes))
            return episodes

        return call

    events.cannot_pause = True
    wrap(module.SingleAgentEnvRunner, "sample", around)


def _count_remote(module: ModuleType, events: Events) -> None:
    """What remote runners sampled is counted when the driver gets it."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            before = events.env_steps
            result = original(*args, **kwargs)
            if events.active:
                gathered = max(0, _sampled(result, kwargs.get("_return_metrics", False)) - (events.env_steps - before))
                events.count_steps(gathered)
                events.counted[GATHERED_STEPS] += gathered
            return result

        return call

    wrap(module, "synchronous_parallel_sample", around)


def _sampled(result: Any, with_metrics: bool) -> int:
    """How many steps were sampled: by the runners' metrics, or by the batches themselves."""
    if with_metrics:
        return sum(int(metrics["num_env_steps_sampled"]) for metrics in result[1])
    batches = result if isinstance(result, list) else [result]
    return sum(int(batch.env_steps()) for batch in batches if hasattr(batch, "env_steps"))


def _end_update(module: ModuleType, events: Events) -> None:
    """What a learner does after its last minibatch belongs to the update; what follows may be a long wait."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            events.phase(stages.UPDATE)
            try:
                return original(*args, **kwargs)
            finally:
                events.phase(stages.UPDATE)

        return call

    wrap(module.Learner, "update", around)


_EARLY, _LATE = ("2.9", "2.40"), ("2.40", "2.61")  # from 2.40 on, runners and learners are the rule

FRAMEWORK = Framework(
    "ray",
    ("2.9", "2.61"),
    regions={
        "ray.rllib.connectors.learner.general_advantage_estimation:GeneralAdvantageEstimation.__call__": stages.ADVANTAGE,
        "ray.rllib.utils.replay_buffers.base:ReplayBufferInterface.add": STORE,
        "ray.rllib.utils.replay_buffers.base:ReplayBufferInterface.sample": stages.SAMPLE,
        "ray.rllib.core.learner.learner:Learner.after_gradient_based_update": TARGET,
        "ray.rllib.core.learner.learner:Learner.get_state": stages.COLLECT,  # weights for those who act
        "ray.rllib.env.env_runner_group:EnvRunnerGroup.sync_weights": stages.COLLECT,
        "ray.rllib.utils.metrics.metrics_logger:MetricsLogger.reduce": stages.LOG,
        "ray.rllib.utils.metrics.metrics_logger:MetricsLogger.aggregate": stages.LOG,
        "ray.rllib.algorithms.algorithm:Algorithm.log_result": stages.LOG,
        "ray.rllib.algorithms.algorithm:Algorithm.evaluate": stages.EVALUATE,
        "ray.rllib.algorithms.algorithm:Algorithm.save_checkpoint": stages.CHECKPOINT,
        # The old API: policies instead of learners.
        "ray.rllib.evaluation.postprocessing:compute_gae_for_sample_batch": stages.ADVANTAGE,
        "ray.rllib.evaluation.worker_set:WorkerSet.sync_weights": stages.COLLECT,
        "ray.rllib.utils.pre_checks.env:check_env": stages.COLLECT,  # steps environments, but no step of these is learned from
    },
    phases={
        "ray.rllib.core.learner.learner_group:LearnerGroup.update": stages.UPDATE,
        "ray.rllib.evaluation.rollout_worker:RolloutWorker.sample": stages.COLLECT,
        "ray.rllib.execution.train_ops:train_one_step": stages.UPDATE,
        "ray.rllib.execution.train_ops:multi_gpu_train_one_step": stages.UPDATE,
    },
    extra={
        "ray.rllib.core.learner.learner": _end_update,
        "ray.rllib.env.single_agent_env_runner": _count_runner,
        "ray.rllib.execution.rollout_ops": _count_remote,
    },
    only={
        "ray.rllib.core.learner.learner:Learner.after_gradient_based_update": _LATE,
        "ray.rllib.env.single_agent_env_runner": _LATE,
        "ray.rllib.evaluation.worker_set:WorkerSet.sync_weights": _EARLY,
        "ray.rllib.utils.pre_checks.env:check_env": _EARLY,
    },
)
