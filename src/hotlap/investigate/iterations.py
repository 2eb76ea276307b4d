"""Systems whose recipe makes few and long iterations, with shorter ones: experiments need many.

PPO's time per step does not depend on how many steps are collected before they are learned from, as long as that is several
minibatches: half the horizon is half the updates. Where one minibatch is all that was collected, half the horizon is half the
minibatch, whose time follows its size while it is large. Where minibatches are whole sequences, the horizon stays.
"""

from dataclasses import replace

from hotlap.target.target import Script, Target

UPDATES = 64  # per iteration
STEPS = 512  # per iteration, at least
LARGE = 2_048  # transitions of a minibatch whose time follows its size


def shortened(target: Target, original: Target) -> Target:
    """The same work per step, in iterations of fewer steps if they are long. `original` is what the target is a change of."""
    if isinstance(target, Script) or isinstance(original, Script) or "horizon" not in target.config:
        return target
    config = target.config
    if config["memory"] != "none" or config["sequences"] or config["priority_alpha"]:
        return target
    num_envs, horizon, batch_size = config["num_envs"], config["horizon"], config["batch_size"]
    steps = original.config["horizon"] * original.config["num_envs"]
    if original.config["batch_size"] >= steps > LARGE:  # by one factor, so that both have minibatches of one size
        horizon = max(1, round(horizon * LARGE / steps))
        batch_size = min(round(batch_size * LARGE / steps), horizon * num_envs)
    else:
        enough = max(STEPS, UPDATES * batch_size // config["epochs"])
        horizon = min(horizon, -(-enough // num_envs))
    return replace(target, config={**config, "horizon": horizon, "batch_size": batch_size})
