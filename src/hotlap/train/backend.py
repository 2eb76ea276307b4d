"""What a run uses to act and to compute the gradient: by hand where that is possible, else by autograd."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hotlap.envs.spec import EnvSpec
from hotlap.train import dense_gpu, parallel
from hotlap.train.acting import Actor, AgainstPast, Dense, FewRows, Groups, StepByStep
from hotlap.train.advantage import MAX_SEATS
from hotlap.train.auxiliary import Auxiliary
from hotlap.train.by_hand import ByHand
from hotlap.train.configs import PPOConfig
from hotlap.train.dense_policy import DensePolicy
from hotlap.train.fast import Lanes
from hotlap.train.flat import flatten
from hotlap.train.gradients import ByAutograd, Gradient, Loss
from hotlap.train.graphs import Graphs
from hotlap.train.lstm_policy import LstmPolicy
from hotlap.train.nets import Policy
from hotlap.train.selfplay import Opponents


@dataclass(frozen=True)
class Backend:
    """How rows act, and how a minibatch's gradient is computed."""

    actor: Actor
    gradient: Gradient


def check_environments(config: PPOConfig, env: Any) -> None:
    """Refuse what these environments cannot be trained with."""
    spec: EnvSpec = env.env_spec
    if spec.seats > MAX_SEATS:
        raise ValueError(f"a game may have at most {MAX_SEATS} seats, not {spec.seats}")
    if np.any(getattr(env.single_action_space, "start", 0)):
        raise ValueError("discrete actions must start at 0")
    if spec.obs_size and config.normalize_obs:
        raise ValueError("normalize-obs does not work with sparse observations, which are zeros and ones")
    columns = min(env.num_envs * config.segments, config.batch_size // config.sequence_steps)
    if config.by_sequences and columns < config.accumulate:
        raise ValueError(f"{columns} sequences per minibatch cannot be split into {config.accumulate} parts (accumulate)")
    if spec.seats > 1:
        if len(spec.action_sizes) != 1:
            raise ValueError(f"turn-based games need one discrete action, not {spec.action_space}")
        refused = (
            "memory",
            "normalize_reward",
            "normalize_return",
            "priority_alpha",
            "sequences",
            "contrastive",
            "cpu_offload",
        )
        for name in refused:
            if getattr(config, name) not in ("none", False, 0):
                raise ValueError(f"{name.replace('_', '-')} does not work in turn-based games")


def choose(
    config: PPOConfig,
    spec: EnvSpec,
    net: Policy,
    flat: nn.Parameter,
    groups: Groups,
    loss: Loss,
    opponents: Opponents | None = None,
    auxiliaries: Sequence[Auxiliary] = (),
) -> Backend:
    """The fastest way that this config, these environments and this network allow. `flat`: see `flat.flatten`."""
    assert flat.grad is not None
    by_hand = can_be_by_hand(config, spec)
    actor: Actor
    gradient: Gradient
    if by_hand and DensePolicy.fits(net) and dense_gpu.fits(flat):
        passes = dense_gpu.GpuDense(net, flat, config)
        actor, gradient = dense_gpu.GpuActor(groups, passes), dense_gpu.GpuByHand(passes, config)
    elif by_hand and config.precision != "bfloat16" and DensePolicy.fits(net):
        policy = DensePolicy(net, flat.grad)
        kernel = policy.actor_kernel(max(rows.stop - rows.start for rows in groups.rows))
        actor = Dense(groups, policy) if kernel is None else FewRows(groups, policy, kernel)
        gradient = ByHand(policy, config)
    elif by_hand and config.precision != "bfloat16" and LstmPolicy.fits(net):
        torch.set_num_threads(1)  # of each lane
        cells = LstmPolicy(net, flat.grad, Lanes(config.torch_threads))
        actor = StepByStep(groups, cells.act, config.precision, flat.device)
        gradient = ByHand(cells, config)
    else:
        acting = torch.compile(net, mode=config.compile_mode) if config.compile else net
        actor = StepByStep(groups, acting, config.precision, flat.device)
        gradient = ByAutograd(net, flat, loss, config.precision, config.compile, auxiliaries, config.compile_mode)
    if opponents is not None:
        actor = AgainstPast(actor, groups, opponents, config.seed)
    return Backend(actor, gradient)


def graphs_of(config: PPOConfig, generators: Sequence[torch.Generator]) -> Graphs:
    """Whether CUDA graphs hold rollouts and updates, and if not, why."""
    device = torch.device(config.device)
    graphs = Graphs(device, generators, wanted=config.graphs and device.type == "cuda")
    reasons = {
        "several processes share each gradient": parallel.world() > 1,
        "torch.compile has graphs of its own": config.compile and config.compile_mode != "default",
        "the rollout is in host memory": config.cpu_offload,
    }
    if graphs.wanted and (reason := next((reason for reason, holds in reasons.items() if holds), "")):
        graphs.wanted, graphs.refused = False, reason
    return graphs


def can_be_by_hand(config: PPOConfig, spec: EnvSpec) -> bool:
    """One discrete action, PPO's own loss, a rollout where the network is; rows of agents that wait for others have no weight,
    which only autograd knows."""
    weighted = spec.agents > 1 and config.by_sequences
    plain = not config.compile and not config.has_auxiliary
    offloaded = config.cpu_offload and config.device != "cpu"
    return len(spec.action_sizes) == 1 and plain and not weighted and not offloaded


def past_policies(config: PPOConfig, spec: EnvSpec, net: Policy, rows: int, on_device: bool = False) -> Opponents:
    """Self-play: past policies as opponents, which act with this network; none yet. `on_device`: the games are there too."""
    flat = flatten(net)
    assert flat.grad is not None

    def outputs(obs: Tensor) -> Tensor:
        output: Tensor = net(obs)[0]
        return output

    by_hand = can_be_by_hand(config, spec) and DensePolicy.fits(net) and config.precision != "bfloat16"
    act = DensePolicy(net, flat.grad).logits if by_hand else outputs
    opponents = Opponents(act, flat, config.opponents, config.opponent_share, rows, spec.seats)
    return opponents.to(flat.device) if on_device else opponents
