"""skrl. It wraps the environments of others; a step returns tensors, of several agents dictionaries of them."""

from __future__ import annotations

from hotlap.core import stages
from hotlap.core.paths import ACT, STORE, TARGET
from hotlap.probe.framework import EnvironmentClass, Framework

FRAMEWORK = Framework(
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
    environments=tuple(
        EnvironmentClass(f"skrl.envs.wrappers.torch.base:{name}", inner=("_env",))
        for name in ("Wrapper", "MultiAgentEnvWrapper")
    ),
)
