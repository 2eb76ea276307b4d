"""Networks side by side: what size costs, and whether time follows size at all.

    nets = hotlap.compare_nets({"small": net, "large": other}, batch=256)

All are timed in this process, interleaved, forward and forward with backward, on the same random input. On small networks the
time goes to calling operations, not to computing them; then a smaller network is no faster, and the result says so.
"""

import copy
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from hotlap.core import stats
from hotlap.record import codec
from hotlap.record.header import ModuleTime
from hotlap.record.networks import NetComparison, NetTimes, readings_of
from hotlap.train.modules import ModuleTimer

ROUNDS, BLOCK = 30, 0.01  # blocks per network; seconds that one lasts at least


def compare_nets(
    nets: Mapping[str, nn.Module],
    batch: int = 256,
    input_shape: tuple[int, ...] | None = None,
    make_input: Callable[[int], Any] | None = None,
    rounds: int = ROUNDS,
    inputs: Mapping[str, Any] | None = None,
) -> NetComparison:
    """Time networks against each other. The input is random numbers of `input_shape`, or what `make_input(batch)` gives; or
    each network has `inputs` of its own."""
    if not nets:
        raise ValueError("compare_nets needs at least one network")
    if batch < 1 or rounds < 2:
        raise ValueError("batch must be at least 1 and rounds at least 2")
    nets = {name: copy.deepcopy(net) for name, net in nets.items()}  # timing leaves gradients and statistics behind
    inputs = inputs or {name: _input(net, batch, input_shape, make_input) for name, net in nets.items()}
    passes = {(name, way): _pass(net, inputs[name], way) for name, net in nets.items() for way in ("act", "forward", "both")}
    samples: dict[tuple[str, str], list[float]] = {key: [] for key in passes}
    repeats = {key: max(1, round(BLOCK / _seconds(run, 3))) for key, run in passes.items()}
    order = random.Random(0)
    for _ in range(rounds):
        for key in order.sample(list(passes), len(passes)):
            samples[key].append(_seconds(passes[key], repeats[key]))
    times = tuple(_times(name, net, inputs[name], samples) for name, net in nets.items())
    return NetComparison(times, batch, readings_of(times))


def _input(net: nn.Module, batch: int, shape: tuple[int, ...] | None, make: Callable[[int], Any] | None) -> Any:
    if make is not None:
        return make(batch)
    device = next((p.device for p in net.parameters()), torch.device("cpu"))
    if shape is None:
        first = next((m for m in net.modules() if isinstance(m, nn.Linear)), None)
        if first is None or any(isinstance(m, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.RNNBase) for m in net.modules()):
            raise ValueError("give input_shape=(...) or make_input=...: the network does not say what it takes")
        shape = (first.in_features,)
    return torch.randn(batch, *shape, device=device, generator=torch.Generator(device).manual_seed(0))


def observations_at_random(env: Any, steps: int = 20) -> Tensor:
    """What environments show after some steps at random."""
    obs, info = env.reset(seed=0)
    rng = np.random.default_rng(0)
    env.action_space.seed(0)
    for _ in range(steps):
        mask = info.get("action_mask")
        action = env.action_space.sample() if mask is None else (rng.random(mask.shape) * mask).argmax(1)
        obs, _, _, _, info = env.step(action)
    return torch.from_numpy(np.array(obs))


def _pass(net: nn.Module, inputs: Any, way: str) -> Callable[[], None]:
    gpu = any(p.is_cuda for p in net.parameters())

    def run() -> None:
        if way == "act":
            with torch.inference_mode():
                net(inputs)
        else:
            net.zero_grad(set_to_none=True)
            loss = _scalar(net(inputs))
            if way == "both":
                loss.backward()  # type: ignore[no-untyped-call]
        if gpu:
            torch.cuda.synchronize()

    return run


def _scalar(output: Any) -> Tensor:
    """Something to start the backward pass from, whatever the network returns."""
    if isinstance(output, Tensor):
        return output.float().sum()
    values = output.values() if isinstance(output, Mapping) else output
    return sum((_scalar(value) for value in values if isinstance(value, Tensor | tuple | list | Mapping)), torch.zeros(()))


def _seconds(run: Callable[[], None], repeats: int) -> float:
    begin = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - begin) / repeats


def _times(name: str, net: nn.Module, inputs: Any, samples: dict[tuple[str, str], list[float]]) -> NetTimes:
    parameters = {p.untyped_storage().data_ptr() for p in net.parameters()}
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = net(inputs)
    del output
    counter = FlopCounterMode(display=False)
    with counter, torch.no_grad():
        net(inputs)
    timer = ModuleTimer({name: net})
    with timer.watch():
        for _ in range(5):
            _pass(net, inputs, "both")()
    act, forward, both = (samples[name, way] for way in ("act", "forward", "both"))
    return NetTimes(
        name=name,
        parameters=sum(p.numel() for p in net.parameters()),
        operations=int(counter.get_total_flops()),
        saved_bytes=sum(saved.values()),
        act=float(np.median(act)),
        act_ci95=stats.bootstrap_interval(act, np.median),
        forward=float(np.median(forward)),
        backward=float(np.median(both) - np.median(forward)),
        both=float(np.median(both)),
        both_ci95=stats.bootstrap_interval(both, np.median),
        modules=tuple(codec.from_json(ModuleTime, codec.to_json(entry), "modules") for entry in timer.results()),
    )
