"""A policy of dense layers, forward and backward by hand."""

from torch import Tensor, nn

from hotlap.train.dense import (
    FEW_ROWS,
    WIDEST,
    ActorKernel,
    AnyLayer,
    Layer,
    actor_library,
    back_through,
    computes,
    layers_of,
    run_layers,
)
from hotlap.train.flat import gradient_views
from hotlap.train.minibatch import Minibatch
from hotlap.train.nets import Policy


class DensePolicy:
    """The forward and backward pass of a `Policy` without a memory whose parameters were flattened."""

    CACHED = 1 << 18  # numbers that a layer's output may have to stay in a CPU's cache until it is used again
    CACHED_ON_GPU = 1 << 28  # a gibibyte: parts would only be more operations

    @staticmethod
    def fits(net: nn.Module) -> bool:
        if type(net) is not Policy or net.encoder.learns or net.memory is not None or net.log_std is not None:
            return False
        return computes(net)

    def __init__(self, net: Policy, gradient: Tensor) -> None:
        places = gradient_views(net, gradient)
        self.encode = net.encoder.forward
        self._inputs = net.encoder.features
        self._actor = layers_of(net.actor, places)
        self._critic = layers_of(net.critic, places) if net.critic is not None else None
        self._tanh = isinstance(net.actor[1], nn.Tanh)
        self._action, self._value = Layer(net.action, places), Layer(net.value, places)
        widest = max(len(layer.bias) for layer in (*self._actor, *(self._critic or ())))
        self.cached_rows = max(1, (self.CACHED_ON_GPU if gradient.is_cuda else self.CACHED) // widest)

    def actor_kernel(self, rows: int) -> ActorKernel | None:
        """A faster way to act for a few rows, where one is available."""
        layers = [layer for layer in (*self._actor, self._action) if isinstance(layer, Layer)]
        dense = len(layers) > len(self._actor)
        narrow = max(self._inputs, *(len(layer.bias) for layer in layers)) <= WIDEST
        library = actor_library() if dense and narrow and rows <= FEW_ROWS and not self._action.bias.is_cuda else None
        return None if library is None else ActorKernel(library, layers, self._tanh, self._inputs)

    def logits(self, obs: Tensor) -> Tensor:
        """Of the actor alone, [B, actions]."""
        return self._action.forward(run_layers(self._actor, self.encode(obs), self._tanh)[-1])

    def logits_and_values(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, actions] and values [B]; keeps what `backward` needs."""
        x = self.encode(obs)
        self._actor_seen = run_layers(self._actor, x, self._tanh)
        self._critic_seen = self._actor_seen if self._critic is None else run_layers(self._critic, x, self._tanh)
        return self._action.forward(self._actor_seen[-1]), self._value.forward(self._critic_seen[-1])[:, 0]

    def forward(self, batch: Minibatch) -> tuple[Tensor, Tensor]:
        return self.logits_and_values(batch.obs)

    def backward(self, logits: Tensor, values: Tensor) -> None:
        """Put the gradient of the parameters in its place, from that of the logits [B, actions] and of the values [B]."""
        values = values[:, None]
        self._action.backward(logits, self._actor_seen[-1])
        self._value.backward(values, self._critic_seen[-1])
        gradient = logits.mm(self._action.weight)
        if self._critic is None:
            self._back(self._actor, self._actor_seen, gradient.addmm_(values, self._value.weight))
        else:
            self._back(self._actor, self._actor_seen, gradient)
            self._back(self._critic, self._critic_seen, values.mm(self._value.weight))

    def _back(self, layers: list[AnyLayer], seen: list[Tensor], gradient: Tensor) -> None:
        for number, layer, to_layer in back_through(layers, seen, gradient, self._tanh):
            layer.backward(to_layer, seen[number])
