"""What the generic hooks cannot see, framework by framework.

An adapter is a table of names. `regions` are functions that are one stage as a whole, `phases` are functions in which the time
that no event claims belongs to `collect` or `update`, `environments` are classes with `step` and `reset` that are no Gymnasium
environments. A name is "module:Class.method" or "module:function"; methods are hooked in derived classes too. A framework whose
version an adapter does not know, or that lacks a name, is measured by the generic hooks alone, and the report says so.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import metadata
from types import ModuleType
from typing import Any

from hotlap import stages
from hotlap.probe.generic import patch_environments
from hotlap.probe.hooks import Around, Patch, as_phase, as_region, wrap, wrap_family
from hotlap.probe.timeline import STORE, Timeline

TARGET = f"{stages.UPDATE}/{stages.TARGET}"
NOTES: list[str] = []  # what the reader of the report should know about the frameworks that were seen


@dataclass(frozen=True)
class Adapter:
    package: str  # on PyPI
    versions: tuple[str, str]  # from the first, up to but without the second
    regions: dict[str, str] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)
    environments: dict[str, Callable[[Any], int]] = field(default_factory=dict)  # class -> steps that one call makes
    extra: dict[str, Patch] = field(default_factory=dict)  # module -> what no table can say

    @property
    def known(self) -> bool:
        """Whether the installed version is one that this adapter was tried with."""
        low, high = map(_version, self.versions)
        return low <= _version(metadata.version(self.package)) < high

    def patches(self) -> dict[str, list[Patch]]:
        found: dict[str, list[Patch]] = {}
        for table, around in ((self.regions, as_region), (self.phases, as_phase)):
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

        def guarded(module: ModuleType, timeline: Timeline) -> None:
            try:
                if self.known:
                    patch(module, timeline)
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


def _hook(target: str, around: Callable[[Timeline, str], Around], path: str) -> Patch:
    def patch(module: ModuleType, timeline: Timeline) -> None:
        owner, _, name = target.rpartition(".")
        if not owner:
            getattr(module, name)
            wrap(module, name, around(timeline, path))
            return
        base = getattr(module, owner)
        getattr(base, name)
        wrap_family(base, {name: around(timeline, path)})

    return patch


def _environments(target: str, steps: Callable[[Any], int]) -> Patch:
    def patch(module: ModuleType, timeline: Timeline) -> None:
        patch_environments(getattr(module, target), timeline, steps)

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
    environments={"stable_baselines3.common.vec_env.base_vec_env:VecEnv": lambda env: int(env.num_envs)},
)


ADAPTERS = (STABLE_BASELINES3,)


def with_frameworks(patches: dict[str, list[Patch]]) -> dict[str, list[Patch]]:
    """The generic patches and all adapters'."""
    combined = {name: list(found) for name, found in patches.items()}
    for adapter in ADAPTERS:
        for name, found in adapter.patches().items():
            combined.setdefault(name, []).extend(found)
    return combined
