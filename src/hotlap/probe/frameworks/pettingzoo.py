"""PettingZoo. One step is one call: of all agents, or of the agent whose turn it is, unless it is dead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hotlap.probe.framework import EnvironmentClass, Framework
from hotlap.probe.results import NONE, StepReader


def _ended(env: Any, result: Any) -> Iterable[int]:
    """Where agents take turns, a step returns nothing."""
    return (0,) if getattr(env, "agents", None) == [] else NONE


def _rewards(env: Any, result: Any) -> list[float]:
    return [float(sum(env.rewards.values()))]


FRAMEWORK = Framework(
    "pettingzoo",
    None,
    environments=(
        EnvironmentClass("pettingzoo.utils.env:ParallelEnv", steps=lambda env, action, result: 1, inner=("env", "aec_env")),
        EnvironmentClass(
            "pettingzoo.utils.env:AECEnv",
            steps=lambda env, action, result: int(action is not None),
            reader=StepReader(_ended, _rewards, lambda result: None),
        ),
    ),
)
