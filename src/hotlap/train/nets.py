"""Networks: of policies with values (PPO) and of Q-values (DQN), and how a config names them.

`NETS` and `QNETS` map the names that `--net` takes to functions that make a network from a config and an environment's
declaration. A system adds its own: most easily a `Policy` or a `QNet` with another encoder.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from hotlap.envs.spec import EnvSpec
from hotlap.train.encoders import Encoder, Indices, auto_encoder, feedforward_encoder, vector_encoder
from hotlap.train.memory import Attention, Cell, Memory, Stack
from hotlap.train.sparse import SparseLinear

T = TypeVar("T")


def mlp(sizes: Sequence[int]) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class QNet(nn.Module):
    """Observations [batch, ...] to Q-values [batch, actions]. `dueling`: two heads."""

    def __init__(self, encoder: Encoder, actions: int, hidden: Sequence[int], dueling: bool = False) -> None:
        super().__init__()
        self.encoder = encoder
        self.trunk = nn.Sequential(mlp([encoder.features, *hidden]), nn.ReLU())
        self.advantage = nn.Linear(hidden[-1], actions)
        self.value = nn.Linear(hidden[-1], 1) if dueling else None

    def forward(self, obs: Tensor) -> Tensor:
        x = self.trunk(self.encoder(obs))
        q = self.advantage(x)
        if self.value is not None:
            q = self.value(x) + q - q.mean(dim=1, keepdim=True)
        return q  # type: ignore[no-any-return]


class Features(NamedTuple):
    """What the heads take, [batch, units] each; one and the same where actor and critic share their layers."""

    actor: Tensor
    critic: Tensor


class Policy(nn.Module):
    """Observations [batch, ...] to the parameters of the action distribution [batch, outputs] and to values [batch].

    `shared`: one trunk for both, else one each, the critic's with the units of `critic_hidden` if that is given. `memory`:
    "lstm", "gru" (in some layers) or "attention" after the (shared) trunk; `forward` then takes and returns its state, and
    `sequence` runs over whole sequences. `deviations`: the outputs end with this many learned log standard deviations.

    Both are features and heads; a network with other layers overrides `step_features`, `sequence_features` and `heads`.
    """

    units: int  # of the actor's features

    def __init__(
        self,
        encoder: Encoder,
        outputs: int,
        hidden: Sequence[int],
        activation: str = "tanh",
        shared: bool = False,
        memory: str = "none",
        deviations: int = 0,
        context: int = 8,
        critic_hidden: Sequence[int] = (),
        memory_layers: int = 1,
    ) -> None:
        super().__init__()
        self.encoder, self.units = encoder, hidden[-1]
        kind = {"tanh": nn.Tanh, "relu": nn.ReLU}[activation]
        apart, sparse = not shared and memory == "none", isinstance(encoder, Indices)
        critic_hidden = (critic_hidden or hidden) if apart else hidden
        self.actor = _trunk([encoder.features, *hidden], kind, sparse)
        self.critic = _trunk([encoder.features, *critic_hidden], kind, sparse) if apart else None
        self.memory = _memory(memory, hidden[-1], memory_layers, context)
        self.action = orthogonal(nn.Linear(hidden[-1], outputs - deviations), 0.01)
        self.value = orthogonal(nn.Linear(critic_hidden[-1], 1), 1.0)
        self.log_std = nn.Parameter(torch.zeros(deviations)) if deviations else None

    def forward(self, obs: Tensor, memory: Memory = ()) -> tuple[Tensor, Tensor, Memory]:
        features, memory = self.step_features(obs, memory)
        return *self.heads(features), memory

    def sequence(self, obs: Tensor, done: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Observations [time, batch, ...] of whole sequences to outputs and values of their rows, [time * batch, ...]."""
        return self.heads(self.sequence_features(obs, done, memory))

    def step_features(self, obs: Tensor, memory: Memory = ()) -> tuple[Features, Memory]:
        """Of one step: what the heads take, and the new memory."""
        x = self.encoder(obs)
        features = self.actor(x)
        if self.memory is not None:
            features, memory = self.memory(features, memory or self.initial(len(obs)))
        return self._with_critic(features, x), memory

    def sequence_features(self, obs: Tensor, done: Tensor, memory: Memory) -> Features:
        """Of whole sequences; the memory is cleared after steps that ended an episode."""
        assert self.memory is not None
        x = self.encoder(obs.flatten(0, 1))
        features = self.actor(x).view(*done.shape, -1)
        return self._with_critic(self.memory.sequence(features, done, memory).flatten(0, 1), x)

    def _with_critic(self, features: Tensor, x: Tensor) -> Features:
        return Features(features, features if self.critic is None else self.critic(x))

    def heads(self, features: Features) -> tuple[Tensor, Tensor]:
        """Outputs and values."""
        output = self.action(features.actor).float()
        value = self.value(features.critic)[:, 0].float()
        if self.log_std is not None:
            output = torch.cat((output, self.log_std.expand(len(output), -1)), -1)
        return output, value

    def initial(self, batch: int) -> Memory:
        """The memory at the beginning of an episode."""
        return () if self.memory is None else self.memory.initial(batch)


def _memory(kind: str, units: int, layers: int, context: int) -> Cell | Stack | Attention | None:
    if kind in ("none", "attention"):
        return None if kind == "none" else Attention(units, context)
    return Cell(kind, units) if layers == 1 else Stack(kind, units, layers)


def _trunk(sizes: Sequence[int], activation: type[nn.Module], sparse: bool) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        first = SparseLinear if sparse and not layers else nn.Linear
        layers += [orthogonal(first(inputs, outputs), 2**0.5), activation()]
    return nn.Sequential(*layers)


Linear = TypeVar("Linear", bound=nn.Linear | SparseLinear)


def orthogonal(layer: Linear, gain: float) -> Linear:
    """Orthogonal weights and zero bias, PPO's usual initialization."""
    nn.init.orthogonal_(layer.weight.t() if isinstance(layer, SparseLinear) else layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


# -- networks by name --

# (config, spec, outputs, deviations): see `Policy`, whose methods it must have.
PolicyMaker = Callable[[Any, EnvSpec, int, int], Policy]
# (config, spec, actions)
QMaker = Callable[[Any, EnvSpec, int], QNet]


def policy_of(config: Any, encoder: Encoder, outputs: int, deviations: int) -> Policy:
    """A policy as the config describes it, after an encoder."""
    return Policy(
        encoder,
        outputs,
        config.hidden,
        config.activation,
        config.shared,
        config.memory,
        deviations,
        config.context,
        config.critic_hidden,
        config.memory_layers,
    )


def auto_policy(config: Any, spec: EnvSpec, outputs: int, deviations: int) -> Policy:
    if spec.obs_size:
        return mlp_policy(config, spec, outputs, deviations)
    return policy_of(config, auto_encoder(spec), outputs, deviations)


def mlp_policy(config: Any, spec: EnvSpec, outputs: int, deviations: int) -> Policy:
    encoder = vector_encoder(spec) if config.memory != "none" else feedforward_encoder(spec)
    return policy_of(config, encoder, outputs, deviations)


def auto_qnet(config: Any, spec: EnvSpec, actions: int) -> QNet:
    return QNet(auto_encoder(spec), actions, config.hidden, config.dueling)


def mlp_qnet(config: Any, spec: EnvSpec, actions: int) -> QNet:
    return QNet(vector_encoder(spec), actions, config.hidden, config.dueling)


NETS: dict[str, PolicyMaker] = {"auto": auto_policy, "mlp": mlp_policy}
QNETS: dict[str, QMaker] = {"auto": auto_qnet, "mlp": mlp_qnet}


def named(nets: Mapping[str, T], name: str) -> T:
    """The maker of a network by its name."""
    if name not in nets:
        raise ValueError(f"net must be one of {', '.join(nets)}, not {name!r}")
    return nets[name]
