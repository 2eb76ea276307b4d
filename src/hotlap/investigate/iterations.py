"""Systems whose recipe makes few and long iterations, with shorter ones: experiments need many.

PPO's time per step does not depend on how many steps are collected before they are learned from, as long as that is several
minibatches: half the horizon is half the updates. Where minibatches are whole sequences, the horizon is part of the work.
"""

from dataclasses import replace

from hotlap.target.target import Script, Target

UPDATES = 64  # per iteration
STEPS = 512  # per iteration, at least


def shortened(target: Target) -> Target:
    """The same work per step, in iterations of fewer steps if they are long."""
    if isinstance(target, Script) or "horizon" not in target.config:
        return target
    config = target.config
    if config["memory"] != "none" or config["sequences"] or config["priority_alpha"]:
        return target
    enough = max(STEPS, UPDATES * config["batch_size"] // config["epochs"])
    horizon = -(-enough // config["num_envs"])
    return replace(target, config={**config, "horizon": horizon}) if horizon < config["horizon"] else target
