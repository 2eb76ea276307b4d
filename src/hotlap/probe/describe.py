"""What a script is made of, looked up once while it trains: its networks, optimizers and environments, and torch's switches."""

from __future__ import annotations

import io
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hotlap.probe import core
from hotlap.probe.alive import alive
from hotlap.probe.frameworks import frameworks
from hotlap.probe.hooks.patching import below
from hotlap.probe.results import attribute
from hotlap.probe.sampler import Sampler, is_users, shorten
from hotlap.record.observed import Description, EnvChain, Net, OptimizerInfo, TorchSwitches

MOST_SOURCE = 1_000_000  # characters
MOST_MODULES = 2_000
DEEPEST_CHAIN = 30


def describe(at_work: Collection[int] = ()) -> Description:
    """The objects alive now: ask between windows. `at_work` are the ids of objects that the script was seen to use."""
    torch = sys.modules.get("torch")
    kinds = ((torch.nn.Module,) if torch else (), (torch.optim.Optimizer,) if torch else (), _environment_types())
    modules, optimizers, environments = _alive(kinds, at_work)
    inner = {id(child) for module in modules for child in module.children()}
    return Description(
        environments=_chains(environments),
        nets=tuple(_net(net) for net in modules if id(net) not in inner and any(True for _ in net.parameters())),
        optimizers=tuple(_optimizer(optimizer) for optimizer in optimizers),
        torch=_switches(torch) if torch else None,
    )


def _alive(wanted: Iterable[tuple[type, ...]], at_work: Collection[int]) -> list[list[Any]]:
    """For each tuple of classes the objects of them, or of classes derived from them."""
    kinds = [tuple(cls for base in classes for cls in (base, *below(base))) for classes in wanted]
    found = alive(tuple(cls for classes in kinds for cls in classes), at_work)
    return [core.instances(found, classes) for classes in kinds]


def _environment_types() -> tuple[type, ...]:
    """The classes of environments that the script has imported."""
    classes = (kind.find() for framework in frameworks() for kind in framework.environments)
    return tuple(cls for cls in classes if cls is not None)


def _chains(environments: list[Any]) -> tuple[EnvChain, ...]:
    names = {name for framework in frameworks() for kind in framework.environments for name in kind.inner}
    wrapped = {id(inner) for env in environments for inner in _inside(env, names)}
    chains = Counter(_chain(env, names) for env in environments if id(env) not in wrapped)
    return tuple(EnvChain(chain, count, num_envs) for (chain, num_envs), count in chains.items())


def _inside(env: Any, names: set[str]) -> list[Any]:
    """The environments directly inside this one."""
    inner: list[Any] = []
    for name in sorted(names):
        value = env.__dict__.get(name) if name.endswith("envs") else attribute(env, name)
        inner += value if isinstance(value, (list, tuple)) else [] if value is None else [value]
    return inner


def _chain(env: Any, names: set[str]) -> tuple[tuple[str, ...], int | None]:
    """Class names from the outermost environment to the innermost, and how many environments a vector among them has."""
    chain: list[str] = []
    sizes: list[int] = []
    while env is not None and len(chain) < DEEPEST_CHAIN:
        chain.append(type(env).__name__)
        size = env.__dict__.get("num_envs") if hasattr(env, "__dict__") else None
        if isinstance(size, int):
            sizes.append(size)
        env = next(iter(_inside(env, names)), None)
    return tuple(chain), max(sizes, default=None)


def _net(module: Any) -> Net:
    kinds = [(part, type(part).__name__) for part in module.modules()]
    layers = Counter(kind for part, kind in kinds if "Attention" in kind or not any(True for _ in part.children()))
    linear = [part for part in module.modules() if type(part).__name__ == "Linear"]
    parameters = list(module.parameters())
    return Net(
        name=type(module).__name__,
        parameters=sum(parameter.numel() for parameter in parameters),
        tensors=len(parameters),
        layers=dict(layers),
        inputs=int(linear[0].in_features) if linear else None,  # a number of numpy's, if the script made it so
        outputs=int(linear[-1].out_features) if linear else None,
        widest=max((int(layer.out_features) for layer in linear), default=None),
        dtype=str(parameters[0].dtype).removeprefix("torch."),
        device=parameters[0].device.type,
    )


def _optimizer(optimizer: Any) -> OptimizerInfo:
    tensors = sum(len(group["params"]) for group in optimizer.param_groups)
    group = optimizer.param_groups[0] if optimizer.param_groups else {}
    switches = {name: group.get(name) for name in ("foreach", "fused", "capturable")}
    return OptimizerInfo(type(optimizer).__name__, tensors, **switches)


def _switches(torch: Any) -> TorchSwitches:
    distributions = sys.modules.get("torch.distributions.distribution")
    return TorchSwitches(
        anomaly=torch.is_anomaly_enabled(),
        validate=bool(distributions and distributions.Distribution._validate_args),
        threads=torch.get_num_threads(),
        matmul=torch.get_float32_matmul_precision(),
    )


def gemm_rate(seconds: float = 0.02) -> float | None:
    """Floating-point operations per second that torch reaches here on a product of 256 x 256 matrices, with its threads."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    with suppress(Exception), torch.inference_mode():
        a = torch.ones(256, 256, dtype=torch.float32, device="cpu")
        best = float("inf")
        start = begin = time.perf_counter()
        while best == float("inf") or begin - start < seconds:  # at least once, however long this process is stopped here
            begin = time.perf_counter()
            torch.mm(a, a)
            best = min(best, time.perf_counter() - begin)
        return float(2 * 256**3 / best)
    return None


def user_modules() -> tuple[str, ...]:
    """The files of user code that are imported now, by their short names."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    texts = [file for file in files if isinstance(file, str) and file.endswith(".py") and is_users(file)]
    return tuple(sorted({shorten(file) for file in texts if Path(file).is_file()}))[:MOST_MODULES]


def sources(sampler: Sampler) -> dict[str, str]:
    """The files of user code that were seen at work, as they are now."""
    texts: dict[str, str] = {}
    for name, path in sampler.files(is_users).items():
        with suppress(OSError, UnicodeDecodeError), io.open_code(str(path)) as file:  # as Python reads it, changed or not
            text = file.read().decode()
            if sum(map(len, texts.values())) + len(text) < MOST_SOURCE:
                texts[name] = text
    return texts
