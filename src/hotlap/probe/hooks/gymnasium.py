"""Gymnasium, and gym before it: the environments of most scripts and frameworks."""

from __future__ import annotations

from hotlap.probe.framework import EnvironmentClass, Framework, VectorLayout

_WRAPPERS = ("Wrapper", "ObservationWrapper", "ActionWrapper", "RewardWrapper")


def _framework(module: str) -> Framework:
    return Framework(
        module,
        None,
        environments=(
            EnvironmentClass(f"{module}:Env", abstract=_WRAPPERS, inner=("env", "_env")),
            EnvironmentClass(f"{module}:vector.VectorEnv", inner=("env", "envs", "_envs")),
        ),
        layouts=(
            VectorLayout(
                f"{module}.vector",
                workers="AsyncVectorEnv",
                one_process="SyncVectorEnv",
                kept=("copy", "observation_mode", "autoreset_mode"),
                start={"context": "fork"},
            ),
        ),
    )


GYMNASIUM, GYM = _framework("gymnasium"), _framework("gym")
