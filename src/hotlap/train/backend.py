"""Which way to act and to compute the gradient a run uses: by hand where that is possible, else by autograd."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hotlap.envs.spec import EnvSpec
from hotlap.train.acting import Actor, AgainstPast, Dense, FewRows, Groups, StepByStep
from hotlap.train.by_hand import ByHand
from hotlap.train.configs import PPOConfig
from hotlap.train.dense_policy import DensePolicy
from hotlap.train.fast import Lanes
from hotlap.train.flat import flatten
from hotlap.train.gradients import ByAutograd, Gradient, Loss
from hotlap.train.lstm_policy import LstmPolicy
from hotlap.train.nets import Policy
from hotlap.train.selfplay import Opponents


@dataclass(frozen=True)
class Backend:
    """How rows act, and how a minibatch's gradient is computed."""

    actor: Actor
    gradient: Gradient


def choose(
    config: PPOConfig,
    spec: EnvSpec,
    net: Policy,
    flat: nn.Parameter,
    groups: Groups,
    loss: Loss,
    opponents: Opponents | None = None,
) -> Backend:
    """The fastest way that this config, these environments and this network allow. `flat`: see `flat.flatten`."""
    assert flat.grad is not None
    by_hand = can_be_by_hand(config, spec)
    actor: Actor
    gradient: Gradient
    if by_hand and DensePolicy.fits(net):
        policy = DensePolicy(net, flat.grad)
        kernel = policy.actor_kernel(max(rows.stop - rows.start for rows in groups.rows))
        actor = Dense(groups, policy) if kernel is None else FewRows(groups, policy, kernel)
        gradient = ByHand(policy, config)
    elif by_hand and LstmPolicy.fits(net):
        torch.set_num_threads(1)  # of each lane
        cells = LstmPolicy(net, flat.grad, Lanes(config.torch_threads))
        actor = StepByStep(groups, cells.act, config.precision)
        gradient = ByHand(cells, config)
    else:
        actor = StepByStep(groups, torch.compile(net) if config.compile else net, config.precision)
        gradient = ByAutograd(net, flat, loss, config.precision, config.compile)
    if opponents is not None:
        actor = AgainstPast(actor, groups, opponents, config.seed)
    return Backend(actor, gradient)


def can_be_by_hand(config: PPOConfig, spec: EnvSpec) -> bool:
    """One discrete action, in plain float32; rows of agents that wait for others have no weight, which only autograd knows."""
    weighted = spec.agents > 1 and config.by_sequences
    return len(spec.action_sizes) == 1 and config.precision == "float32" and not config.compile and not weighted


def past_policies(config: PPOConfig, spec: EnvSpec, net: Policy, rows: int) -> Opponents:
    """Self-play: past policies as opponents, which act with this network; none yet."""
    flat = flatten(net)
    assert flat.grad is not None

    def outputs(obs: Tensor) -> Tensor:
        output: Tensor = net(obs)[0]
        return output

    by_hand = can_be_by_hand(config, spec) and DensePolicy.fits(net)
    act = DensePolicy(net, flat.grad).logits if by_hand else outputs
    return Opponents(act, flat, config.opponents, config.opponent_share, rows, spec.seats)
