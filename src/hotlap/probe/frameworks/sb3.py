"""Stable-Baselines3."""

from __future__ import annotations

from hotlap.core import stages
from hotlap.core.paths import STORE, TARGET
from hotlap.probe.framework import EnvironmentClass, Framework, VectorLayout

FRAMEWORK = Framework(
    "stable-baselines3",
    ("1.8", "3.0"),
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
    environments=(EnvironmentClass("stable_baselines3.common.vec_env.base_vec_env:VecEnv", inner=("venv", "envs")),),
    layouts=(
        VectorLayout(
            "stable_baselines3.common.vec_env",
            workers="SubprocVecEnv",
            one_process="DummyVecEnv",
            kept=(),
            start={"start_method": "fork"},
        ),
    ),
)
