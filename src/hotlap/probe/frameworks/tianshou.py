"""Tianshou."""

from __future__ import annotations

from hotlap.core import stages
from hotlap.core.paths import STORE, TARGET
from hotlap.probe.framework import EnvironmentClass, Framework, VectorLayout

FRAMEWORK = Framework(
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
    environments=(
        EnvironmentClass(
            "tianshou.env.venvs:BaseVectorEnv",
            steps=lambda env, action, result: len(result[1]),  # a step may be of some of its environments
            inner=("venv",),
        ),
    ),
    layouts=(
        VectorLayout("tianshou.env", workers="SubprocVectorEnv", one_process="DummyVectorEnv", kept=("wait_num", "timeout")),
    ),
)
