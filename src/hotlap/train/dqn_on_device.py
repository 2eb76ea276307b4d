"""DQN where the environments are on the GPU too: a whole iteration without a word from the host.

The host knows beforehand what depends on counts alone: epsilon, how many updates follow each step, which of them copy into the
target network. It sends that `Plan` once, and reads once what came of it: whether all was finite and legal, which episodes
ended, the losses. In between is `steps`, which a CUDA graph can hold.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hotlap.core import stages
from hotlap.core.clock import StageClock
from hotlap.core.graph_marks import MARKED
from hotlap.train.configs import DQNConfig
from hotlap.train.graphs import Graphs
from hotlap.train.metrics import Metrics
from hotlap.train.on_device import summarize, take_summary
from hotlap.train.replay import Replay, VectorStep, replay_kind

MOST_UPDATES = 1024  # updates of an iteration, some forty kernels each, that go into one graph


@dataclass
class Plan:
    """What an iteration is going to do in each vector step; `sync`: which of all updates end with a copy into the target."""

    epsilon: list[float] = field(default_factory=list)
    beta: list[float] = field(default_factory=list)
    updates: list[int] = field(default_factory=list)
    sync: list[bool] = field(default_factory=list)


def prepare(state: Any, config: DQNConfig, env: Any) -> None:
    """Capture whole iterations, or updates where the environments are elsewhere or an iteration has too many."""
    device = torch.device(config.device)
    state.graphs = graphs = Graphs(device, [state.generator], wanted=config.graphs and device.type == "cuda")
    if graphs.wanted and replay_kind(device) is Replay:
        graphs.wanted, graphs.refused = False, "the replay memory asks the host where it is"
    whole = env.on_device and config.iteration_steps * config.updates_per_step <= MOST_UPDATES
    if not whole:
        state.learn = graphs.of("update", state.learn)
    if env.on_device:
        actions = torch.zeros(config.iteration_steps, env.num_envs, dtype=torch.int64, device=device)
        env.engine.take_actions_from(actions)
        state.steps = partial(steps, state, env, actions)
        if whole:
            state.steps = graphs.of("iteration", state.steps, config.iteration_steps // MARKED)


def iterate(state: Any, plan: Plan, env: Any, clock: StageClock, metrics: Metrics) -> None:
    """Collect and learn as planned."""
    env.rewind()
    numbers = [*plan.epsilon, *plan.beta, *plan.sync]
    schedule = torch.tensor(numbers, dtype=torch.float64, device=state.flat.device)
    state.steps(clock, schedule, updates=tuple(plan.updates))
    env.advance(len(plan.updates))
    take_summary(env, summarize(env, None, clock).tolist(), metrics)  # waits for the GPU


def steps(state: Any, env: Any, actions: Tensor, clock: StageClock, schedule: Tensor, updates: tuple[int, ...]) -> None:
    """A vector step, and `updates` after each. `schedule`: epsilon and beta of each step, and which updates sync the target."""
    epsilon, beta = schedule[: 2 * len(updates)].view(2, -1)
    sync, made = schedule[2 * len(updates) :] > 0, 0
    for t, count in enumerate(updates):
        with clock.stage(stages.COLLECT):
            collect(state, env, actions[t], clock, t, epsilon[t])
        for _ in range(count):
            state.learn(clock, beta[t], sync[made])
            made += 1


@torch.inference_mode()
def collect(state: Any, env: Any, action: Tensor, clock: StageClock, t: int, epsilon: Tensor) -> None:
    """Step t of every environment, by `action` where they find it, into the replay memory."""
    before = env.at(t)
    mask = before.mask if env.engine.masked else None
    with clock.stage(stages.ACT):
        draw = torch.rand(len(action), generator=state.generator, device=action.device)
        action.copy_(state.actor.act(before.obs, mask, draw, epsilon))
    with clock.stage(stages.ENV_STEP):
        out = env.step_into(t + 1)
    with clock.stage(stages.STORE):
        over = out.terminated | out.truncated
        after = torch.where(over.view(-1, *[1] * (out.obs.dim() - 1)), out.final_obs, out.obs)
        legal_after = None if mask is None else out.mask | over[:, None]  # what was legal at an episode's end is not known
        state.replay.add(VectorStep(before.obs, action, out.reward, after, out.terminated, out.truncated, legal_after))
