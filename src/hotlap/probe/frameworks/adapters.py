"""What the generic hooks cannot see, framework by framework.

An adapter is a table of names. `regions` are functions that are one stage as a whole, `phases` are functions in which the time
that no event claims belongs to `collect` or `update`, `environments` are classes with `step` and `reset` that are no Gymnasium
environments. A name is "module:Class.method" or "module:function"; methods are hooked in derived classes too, unless the name
ends with "!". A framework whose
version an adapter does not know, or that lacks a name, is measured by the generic hooks alone, and the report says so.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import metadata
from types import ModuleType
from typing import Any

from hotlap.core import stages
from hotlap.core.paths import ACT, RESET, STEP, STORE, WAIT
from hotlap.probe.events import Events
from hotlap.probe.hooks.environments import Steps, num_envs, patch_environments
from hotlap.probe.hooks.patching import NOTES, Around, Patch, as_phase, as_region, as_wait, wrap, wrap_family
from hotlap.probe.timeline import RESETTING, STEPPED, WAITED

TARGET = f"{stages.UPDATE}/{stages.TARGET}"


@dataclass(frozen=True)
class Adapter:
    package: str  # on PyPI
    versions: tuple[str, str]  # from the first, up to but without the second
    regions: dict[str, str] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)
    waits: tuple[str, ...] = ()  # functions that wait for workers
    environments: dict[str, Steps] = field(default_factory=dict)  # class -> steps that one call makes
    extra: dict[str, Patch] = field(default_factory=dict)  # module -> what no table can say

    @property
    def known(self) -> bool:
        """Whether the installed version is one that this adapter was tried with."""
        low, high = map(_version, self.versions)
        return low <= _version(metadata.version(self.package)) < high

    def patches(self) -> dict[str, list[Patch]]:
        found: dict[str, list[Patch]] = {}
        waits = dict.fromkeys(self.waits, WAIT)
        for table, around in ((self.regions, as_region), (self.phases, as_phase), (waits, as_wait)):
            for name, path in table.items():
                module, _, target = name.partition(":")
                found.setdefault(module, []).append(self._guarded(name, _hook(target, around, path)))
        for name, steps in self.environments.items():
            module, _, target = name.partition(":")
            found.setdefault(module, []).append(self._guarded(name, _environments(target, steps)))
        for name, patch in self.extra.items():
            found.setdefault(name, []).append(self._guarded(name, patch))
        return found

    def _guarded(self, name: str, patch: Patch) -> Patch:
        """Patch if the version is known; what cannot be patched is noted, once per package."""

        def guarded(module: ModuleType, events: Events) -> None:
            try:
                if self.known:
                    patch(module, events)
                    return
                problem = f"hotlap's adapter knows {self.versions[0]} up to {self.versions[1]}"
            except Exception as error:
                problem = f"{name} is not as hotlap's adapter knows it ({error})"
            version = metadata.version(self.package) if self._is_installed() else "unknown"
            note = f"{self.package} {version}: {problem}; its stages come from the generic hooks alone."
            if not any(known.startswith(f"{self.package} ") for known in NOTES):
                NOTES.append(note)

        return guarded

    def _is_installed(self) -> bool:
        try:
            return bool(metadata.version(self.package))
        except metadata.PackageNotFoundError:
            return False


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0])[:3])


def _hook(target: str, around: Callable[[Events, str], Around], path: str) -> Patch:
    def patch(module: ModuleType, events: Events) -> None:
        owner, _, name = target.rpartition(".")
        if not owner:
            getattr(module, name)
            wrap(module, name, around(events, path))
            return
        base = getattr(module, owner)
        if name.endswith("!"):
            wrap(base, name[:-1], around(events, path))
            return
        wrap(base, name, around(events, path), inherited=True)
        wrap_family(base, {name: around(events, path)})

    return patch


def _environments(target: str, steps: Steps) -> Patch:
    def patch(module: ModuleType, events: Events) -> None:
        patch_environments(getattr(module, target), events, steps)

    return patch


STABLE_BASELINES3 = Adapter(
    "stable-baselines3",
    ("2.0", "3.0"),
    regions={
        "stable_baselines3.common.buffers:BaseBuffer.add": STORE,
        "stable_baselines3.common.buffers:RolloutBuffer.compute_returns_and_advantage": stages.ADVANTAGE,
        "stable_baselines3.common.buffers:ReplayBuffer.sample": stages.SAMPLE,
        "stable_baselines3.common.buffers:RolloutBuffer._get_samples": stages.SAMPLE,
        "stable_baselines3.common.logger:Logger.dump": stages.LOG,
        "stable_baselines3.common.base_class:BaseAlgorithm.save": stages.CHECKPOINT,
        "stable_baselines3.common.off_policy_algorithm:OffPolicyAlgorithm.save_replay_buffer": stages.CHECKPOINT,
        "stable_baselines3.common.evaluation:evaluate_policy": stages.EVALUATE,
        "stable_baselines3.common.callbacks:evaluate_policy": stages.EVALUATE,
        "stable_baselines3.dqn.dqn:polyak_update": TARGET,
        "stable_baselines3.td3.td3:polyak_update": TARGET,
        "stable_baselines3.sac.sac:polyak_update": TARGET,
    },
    phases={
        "stable_baselines3.common.on_policy_algorithm:OnPolicyAlgorithm.collect_rollouts": stages.COLLECT,
        "stable_baselines3.common.off_policy_algorithm:OffPolicyAlgorithm.collect_rollouts": stages.COLLECT,
        "stable_baselines3.common.on_policy_algorithm:OnPolicyAlgorithm.train": stages.UPDATE,
        "stable_baselines3.common.off_policy_algorithm:OffPolicyAlgorithm.train": stages.UPDATE,
    },
    environments={"stable_baselines3.common.vec_env.base_vec_env:VecEnv": num_envs},
)


TORCHRL = Adapter(
    "torchrl",
    ("0.14", "0.15"),
    regions={
        "torchrl.data.replay_buffers.replay_buffers.base:ReplayBuffer.add": STORE,
        "torchrl.data.replay_buffers.replay_buffers.base:ReplayBuffer.extend": STORE,
        "torchrl.data.replay_buffers.replay_buffers.base:ReplayBuffer.sample": stages.SAMPLE,
        "torchrl.data.replay_buffers.replay_buffers.base:ReplayBuffer.update_priority": stages.SAMPLE,
        "torchrl.objectives.value.advantages:ValueEstimatorBase.__call__": stages.ADVANTAGE,
        "torchrl.objectives.utils:TargetNetUpdater.step": TARGET,
        "torchrl.collectors._base:BaseCollector.update_policy_weights_": stages.COLLECT,
        "torchrl.envs.common:EnvBase.close": stages.COLLECT,
        "torchrl.record.loggers.common:Logger.log_scalar": stages.LOG,
    },
    phases={"torchrl.collectors._single:Collector.rollout": stages.COLLECT},
    waits=("torchrl.envs.batched_envs:ParallelEnv._wait_for_workers",),
    extra={
        "torchrl.envs.common": lambda module, events: patch_environments(
            module.EnvBase, events, lambda env, *_: env.batch_size.numel() or 1, also=("step_and_maybe_reset",)
        )
    },
)


def _count_runner(module: ModuleType, events: Events) -> None:
    """A vector step in which an environment begins anew is no step of it: what was sampled says how many there were."""

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

    events.restless = True
    wrap(module.SingleAgentEnvRunner, "sample", around)


def _count_remote(module: ModuleType, events: Events) -> None:
    """What remote runners sampled is counted when the driver gets it."""

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            before = events.env_steps
            result = original(*args, **kwargs)
            if events.active and kwargs.get("_return_metrics"):
                sampled = sum(int(found["num_env_steps_sampled"]) for found in result[1])
                events.count_steps(max(0, sampled - (events.env_steps - before)))
            return result

        return call

    wrap(module, "synchronous_parallel_sample", around)


RLLIB = Adapter(
    "ray",
    ("2.60", "2.61"),
    regions={
        "ray.rllib.connectors.learner.general_advantage_estimation:GeneralAdvantageEstimation.__call__": stages.ADVANTAGE,
        "ray.rllib.utils.replay_buffers.base:ReplayBufferInterface.add": STORE,
        "ray.rllib.utils.replay_buffers.base:ReplayBufferInterface.sample": stages.SAMPLE,
        "ray.rllib.core.learner.learner:Learner.after_gradient_based_update": TARGET,
        "ray.rllib.env.env_runner_group:EnvRunnerGroup.sync_weights": stages.COLLECT,
        "ray.rllib.utils.metrics.metrics_logger:MetricsLogger.reduce": stages.LOG,
        "ray.rllib.utils.metrics.metrics_logger:MetricsLogger.aggregate": stages.LOG,
        "ray.rllib.algorithms.algorithm:Algorithm.log_result": stages.LOG,
        "ray.rllib.algorithms.algorithm:Algorithm.evaluate": stages.EVALUATE,
        "ray.rllib.algorithms.algorithm:Algorithm.save_checkpoint": stages.CHECKPOINT,
    },
    phases={"ray.rllib.core.learner.learner_group:LearnerGroup.update": stages.UPDATE},
    extra={
        "ray.rllib.env.single_agent_env_runner": _count_runner,
        "ray.rllib.execution.rollout_ops": _count_remote,
    },
)

TIANSHOU = Adapter(
    "tianshou",
    ("2.0", "2.1"),
    regions={
        "tianshou.data.buffer.buffer_base:ReplayBuffer.add": STORE,
        "tianshou.data.buffer.buffer_base:ReplayBuffer.hasnull": STORE,
        "tianshou.data.buffer.buffer_base:ReplayBuffer.sample": stages.SAMPLE,
        "tianshou.algorithm.algorithm_base:Algorithm.compute_episodic_return": stages.ADVANTAGE,
        "tianshou.algorithm.algorithm_base:Algorithm.compute_nstep_return": stages.ADVANTAGE,
        "tianshou.utils.lagged_network:LaggedNetworkCollection.full_parameter_update": TARGET,
        "tianshou.utils.lagged_network:LaggedNetworkCollection.polyak_parameter_update": TARGET,
        "tianshou.trainer:Trainer._test_step": stages.EVALUATE,
        "tianshou.utils.logger.logger_base:BaseLogger.log_training_data": stages.LOG,
        "tianshou.utils.logger.logger_base:BaseLogger.log_update_data": stages.LOG,
        "tianshou.utils.logger.logger_base:BaseLogger.log_info_data": stages.LOG,
        "tianshou.utils.logger.logger_base:BaseLogger.save_data": stages.CHECKPOINT,
    },
    phases={
        "tianshou.data.collector:BaseCollector.collect": stages.COLLECT,
        "tianshou.trainer:OnlineTrainer._update_step": stages.UPDATE,
    },
    environments={"tianshou.env.venvs:BaseVectorEnv": lambda env, action, result: len(result[1])},
)

SKRL = Adapter(
    "skrl",
    ("2.0", "2.2"),
    regions={
        **{
            f"skrl.{where}:compute_gae": stages.ADVANTAGE
            for where in (
                *(f"agents.torch.{name}.{name}{kind}" for name in ("a2c", "ppo", "rpo", "trpo") for kind in ("", "_rnn")),
                "agents.torch.amp.amp",
                "multi_agents.torch.ippo.ippo",
                "multi_agents.torch.mappo.mappo",
            )
        },
        "skrl.memories.torch.base:Memory.add_samples": STORE,
        "skrl.memories.torch.base:Memory.sample": stages.SAMPLE,
        "skrl.memories.torch.base:Memory.sample_all": stages.SAMPLE,
        "skrl.agents.torch.base:Agent.record_transition!": stages.LOG,  # the base class keeps statistics
        "skrl.agents.torch.base:Agent.write_tracking_data": stages.LOG,
        "skrl.agents.torch.base:Agent.write_checkpoint": stages.CHECKPOINT,
        "skrl.models.torch.base:Model.update_parameters": TARGET,
        "skrl.trainers.torch.base:Trainer.eval": stages.EVALUATE,
    },
    phases={"skrl.agents.torch.base:Agent.act": ACT, "skrl.agents.torch.base:Agent.update": stages.UPDATE},
    environments={
        "skrl.envs.wrappers.torch.base:Wrapper": num_envs,
        "skrl.envs.wrappers.torch.base:MultiAgentEnvWrapper": num_envs,
    },
)


def _patch_puffer(module: ModuleType, events: Events) -> None:
    """`send` gives actions, `recv` returns what came of them: in one process `send` steps, with workers `recv` waits."""
    sent: set[int] = set()  # the first `recv` after a reset answers no action

    def around(path: str, name: str) -> Around:
        def decorate(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(env: Any, *args: Any, **kwargs: Any) -> Any:
                if events.inside or not (begin := events.environment(path)):
                    return original(env, *args, **kwargs)
                steps = 0
                try:
                    result = original(env, *args, **kwargs)
                    if name == "send":
                        sent.add(id(env))
                    elif name == "recv" and id(env) in sent:
                        steps = int(result[6].sum())
                    return result
                finally:
                    events.stepped({RESET: RESETTING, STEP: STEPPED, WAIT: WAITED}[path], begin, id(env), steps)

            return call

        return decorate

    events.restless = True
    for kind in ("Serial", "Multiprocessing", "Ray"):
        if owner := getattr(module, kind, None):
            wrap(owner, "async_reset", around(RESET, "reset"))
            wrap(owner, "send", around(STEP, "send"))
            wrap(owner, "recv", around(STEP if kind == "Serial" else WAIT, "recv"))


PUFFERLIB = Adapter("pufferlib", ("3.0", "3.1"), extra={"pufferlib.vector": _patch_puffer})

ADAPTERS = (STABLE_BASELINES3, TORCHRL, RLLIB, TIANSHOU, SKRL, PUFFERLIB)


def with_frameworks(patches: dict[str, list[Patch]]) -> dict[str, list[Patch]]:
    """The generic patches and all adapters'."""
    combined = {name: list(found) for name, found in patches.items()}
    for adapter in ADAPTERS:
        for name, found in adapter.patches().items():
            combined.setdefault(name, []).extend(found)
    return combined
