"""Collecting where the environments are on the GPU too: a whole rollout without a word from the host.

The steps are `steps`, which a CUDA graph can hold. What needs the host waits until the rollout is over, and asks once: whether
numbers were finite and actions legal, and which episodes were cut off, whose last rewards get the value of where.
"""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from hotlap.core import stages
from hotlap.core.clock import StageClock
from hotlap.train import finite, parallel
from hotlap.train.metrics import Metrics
from hotlap.train.selfplay import Opponents


@torch.inference_mode()
def steps(state: Any, config: Any, env: Any, clock: StageClock) -> None:
    """`horizon` steps of all environments into the rollout."""
    rollout, rows = state.rollout, env.groups[0]
    for t in range(config.horizon):
        rollout.place(t, rows, env.at(t), state.obs_moments)
        with clock.stage(stages.ACT):
            state.actor.act(0, t)  # into the rollout, where the environments find their actions
        with clock.stage(stages.ENV_STEP):
            out = env.step_into(t + 1)
        with clock.stage(stages.STORE):
            fresh = rollout.store(t, rows, out, out.terminated | out.truncated)
            if state.reward_scale is not None:
                state.reward_scale.scale_(rows, rollout.reward[t], rollout.done[t])
            for kept, now in zip(rollout.path, rollout.memory, strict=False):
                kept[t] = now
            rollout.forget(rows, fresh)
    rollout.place(config.horizon, rows, env.at(config.horizon), state.obs_moments)


@torch.inference_mode()
def finish(state: Any, clock: StageClock) -> None:
    """What is still missing when the rollout is over."""
    with clock.stage(stages.ACT):
        state.actor.finish()


@torch.inference_mode()
def collect(state: Any, config: Any, env: Any, clock: StageClock, metrics: Metrics) -> None:
    """`horizon` steps of every row into the rollout."""
    state.rollout.begin()
    state.actor.begin(state.iterations)
    env.rewind()
    state.steps(clock)
    state.finish(clock)
    found = state.summarize(clock).tolist()  # waits for the GPU
    env.advance(config.horizon)
    if take_summary(env, found, metrics, state.opponents) and config.bootstrap:
        bootstrap(state, config, env, _cut(env).nonzero())
    state.env_steps += config.horizon * env.num_envs * parallel.world()


def _cut(env: Any) -> Tensor:
    """Which steps [T, N] cut an episode off."""
    cut: Tensor = env.rings["truncated"][1:] & ~env.rings["terminated"][1:]
    return cut


@torch.inference_mode()
def summarize(env: Any, opponents: Opponents | None, clock: StageClock) -> Tensor:
    """What the host wants to know of a rollout: `finite.DEVICE_CHECKS`, then of episodes that ended the sum of each metric and
    their number."""
    over = env.rings["terminated"][1:] | env.rings["truncated"][1:]
    columns = {name: values[1:] for name, values in env.final_info(SimpleNamespace(**env.finals)).items()}
    returns = columns.pop("returns", None)
    numbers = finite.checks_on_device(env, _cut(env))
    for values in columns.values():
        numbers += [torch.where(over, values, 0).sum(), over.sum()]
    if opponents is not None:
        numbers += opponents.scores(returns, over)
    return torch.stack([number.double() for number in numbers])


def take_summary(env: Any, found: list[float], metrics: Metrics, opponents: Opponents | None = None) -> bool:
    """Check and log what `summarize` found; whether any step cut an episode off."""
    checks = len(finite.DEVICE_CHECKS)
    names = [name for name in env.final_info(SimpleNamespace(**env.finals)) if name != "returns"]
    names += ["score_against_past"] if opponents is not None else []
    for name, total, count in zip(names, found[checks::2], found[checks + 1 :: 2], strict=True):
        metrics.add_sum(name, total, int(count))
    return finite.check_on_device(env, found[:checks])


def bootstrap(state: Any, config: Any, env: Any, places: Tensor) -> None:
    """Add the value of where episodes were cut off, at `places` [n, (step, row)], to their last reward."""
    rollout, (t, row) = state.rollout, places.unbind(1)
    chosen, at = (t, row), (t + 1, row)  # the slot that a step went into
    last = env.finals["final_obs"][at]
    last = last if state.obs_moments is None else state.obs_moments.normalize(last)
    memory = tuple(part[chosen] for part in rollout.path)
    value = config.gamma * state.net(last.to(rollout.obs.dtype), memory)[1]
    rollout.bootstrap(chosen, value, env.finals["final_seat"][at] if rollout.turns is not None else None)
