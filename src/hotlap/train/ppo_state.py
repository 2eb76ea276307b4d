"""All that a run of PPO depends on besides its config and its environments, and how a checkpoint keeps it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hotlap.train import parallel, rating
from hotlap.train.acting import Actor
from hotlap.train.actions import Actions
from hotlap.train.auxiliary import Auxiliary
from hotlap.train.batches import Batches
from hotlap.train.checkpoint import Varying, part_of, tensors_of
from hotlap.train.flat import Adam
from hotlap.train.gradients import Gradient
from hotlap.train.graphs import Function, Graphs
from hotlap.train.nets import Policy
from hotlap.train.normalize import Moments, RewardScale
from hotlap.train.rollout import Rollout
from hotlap.train.selfplay import Opponents


@dataclass
class State:
    """All that a run depends on, besides its config and its environments."""

    net: Policy
    flat: nn.Parameter  # all parameters of the network, which has views of it
    actions: Actions
    rollout: Rollout
    actor: Actor
    gradient: Gradient
    batches: Batches
    optimizer: Adam
    entropy_weight: Tensor  # in the loss, now
    graphs: Graphs
    generators: list[torch.Generator]  # one for each group of rows, so that their order does not matter
    obs_moments: Moments | None
    reward_scale: RewardScale | None
    opponents: Opponents | None
    auxiliaries: tuple[Auxiliary, ...] = ()  # losses beside PPO's own
    # The functions of `ppo` and, where the environments are on the GPU, of `on_device`; perhaps as CUDA graphs.
    learn_from: Function = field(init=False, repr=False)
    epoch: Function = field(init=False, repr=False)
    steps: Function = field(init=False, repr=False)
    finish: Function = field(init=False, repr=False)
    summarize: Function = field(init=False, repr=False)
    env_steps: int = 0
    updates: int = 0
    episodes: int = 0
    iterations: int = 0
    bot_ratings: rating.BotRatings = field(default_factory=rating.BotRatings)  # of evaluations


_COUNTERS = ("env_steps", "updates", "episodes", "iterations")
VARYING = Varying(rows=("generator.", "opponents."), numbered=("generator.",))  # by device, and as it fills; by groups


def parts_of(state: State) -> dict[str, Any]:
    """What keeps tensors of its own: `state` gives them, `load` takes them back."""
    parts = {name: getattr(state, name) for name in ("optimizer", "obs_moments", "reward_scale", "opponents")}
    parts |= {auxiliary.stage: auxiliary for auxiliary in state.auxiliaries}
    return {name: part for name, part in parts.items() if part is not None}


def save_state(state: State, env: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Everything that the rest of the run depends on: arrays and plain numbers."""
    tensors = {f"net.{k}": v for k, v in state.net.state_dict().items()}
    tensors |= {f"memory.{i}": part for i, part in enumerate(state.rollout.memory)}
    for name, part in parts_of(state).items():
        tensors |= {f"{name}.{k}": v for k, v in part.state().items()}
    tensors |= {f"generator.{i}": generator.get_state() for i, generator in enumerate(state.generators)}
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    arrays |= {f"env.{k}": v for k, v in env.state().items()}
    return arrays, {name: getattr(state, name) for name in _COUNTERS}


def load_state(state: State, env: Any, arrays: dict[str, NDArray[Any]], numbers: dict[str, Any]) -> None:
    """Put a fresh `start` exactly where `save_state` was taken."""
    device = state.flat.device
    for name in _COUNTERS:
        setattr(state, name, numbers[name])
    state.net.load_state_dict(tensors_of(arrays, device, "net."))
    for i, part in enumerate(state.rollout.memory):
        part.copy_(torch.from_numpy(np.array(arrays[f"memory.{i}"])))
    for name, kept in parts_of(state).items():
        kept.load(tensors_of(arrays, device, f"{name}."))
    for i, generator in enumerate(state.generators):
        parallel.restore(generator, arrays.get(f"generator.{i}"), state.env_steps, i + 1)
    env.load_state(part_of(arrays, "env."), parallel.row_seeds([state.env_steps], env.num_envs))
    if not env.restores:  # it began new episodes
        state.rollout.forget(slice(None), torch.ones(env.num_envs, dtype=torch.bool))
        for auxiliary in state.auxiliaries:
            auxiliary.forget()
        if state.reward_scale is not None:
            state.reward_scale.returns.zero_()
