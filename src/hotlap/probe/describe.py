"""What a script is made of, looked up once while it trains: its networks, optimizers and environments, and torch's switches."""

import gc
import io
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Any

from hotlap.probe.sampler import Sampler, is_users

SOURCES = "sources.json"  # beside the record: the user's code that the sampler saw
MOST_SOURCE = 1_000_000  # characters


def facts() -> dict[str, Any]:
    """Of the objects alive now. Takes a tenth of a second or so: ask between windows."""
    found: dict[str, Any] = {"environments": [], "nets": [], "optimizers": []}
    torch, gymnasium = sys.modules.get("torch"), sys.modules.get("gymnasium")
    kinds = _environment_kinds()
    modules, optimizers, environments = [], [], []
    for thing in gc.get_objects():
        kind = type(thing)  # isinstance would ask the thing itself, and some do not like that
        if torch and issubclass(kind, torch.nn.Module):
            modules.append(thing)
        elif torch and issubclass(kind, torch.optim.Optimizer):
            optimizers.append(thing)
        elif kinds and issubclass(kind, kinds):
            environments.append(thing)
    if torch:
        inner = {id(child) for module in modules for child in module.children()}
        found["nets"] = [
            _net(module) for module in modules if id(module) not in inner and any(True for _ in module.parameters())
        ]
        found["optimizers"] = [_optimizer(optimizer) for optimizer in optimizers]
        found["torch"] = _switches(torch)
    if gymnasium or kinds:
        wrapped = {id(below) for env in environments for below in _below(env)}
        chains = Counter(tuple(_chain(env)) for env in environments if id(env) not in wrapped)
        found["environments"] = [{"chain": list(chain), "count": count} for chain, count in chains.items()]
    return found


def _environment_kinds() -> tuple[type, ...]:
    places = (
        ("gymnasium", "Env"),
        ("gymnasium.vector", "VectorEnv"),
        ("stable_baselines3.common.vec_env.base_vec_env", "VecEnv"),
        ("torchrl.envs.common", "EnvBase"),
        ("gym", "Env"),
    )
    return tuple(kind for module, name in places if (kind := getattr(sys.modules.get(module), name, None)))


def _below(env: Any) -> list[Any]:
    """The environments directly inside this one."""
    found = [getattr(env, name, None) for name in ("env", "venv", "base_env", "_env")]
    inner = env.__dict__.get("envs") or env.__dict__.get("_envs")
    return [*(e for e in found if e is not None), *(inner if isinstance(inner, list | tuple) else ())]


def _chain(env: Any) -> list[str]:
    """Class names from the outermost environment to the innermost, a vector's number of environments with its name."""
    names: list[str] = []
    while env is not None and len(names) < 30:
        number = env.__dict__.get("num_envs") if hasattr(env, "__dict__") else None
        names.append(type(env).__name__ + (f" x{number}" if isinstance(number, int) else ""))
        inner = _below(env)
        env = inner[0] if inner else None
    return names


def _net(module: Any) -> dict[str, Any]:
    kinds = Counter(type(part).__name__ for part in module.modules() if not any(True for _ in part.children()))
    linear = [part for part in module.modules() if type(part).__name__ == "Linear"]
    parameters = list(module.parameters())
    return {
        "name": type(module).__name__,
        "parameters": sum(parameter.numel() for parameter in parameters),
        "tensors": len(parameters),
        "layers": dict(kinds),
        "inputs": int(linear[0].in_features) if linear else None,  # a number of numpy's, if the script made it so
        "outputs": int(linear[-1].out_features) if linear else None,
        "widest": max((int(layer.out_features) for layer in linear), default=None),
        "dtype": str(parameters[0].dtype).removeprefix("torch."),
        "device": parameters[0].device.type,
    }


def _optimizer(optimizer: Any) -> dict[str, Any]:
    tensors = sum(len(group["params"]) for group in optimizer.param_groups)
    group = optimizer.param_groups[0] if optimizer.param_groups else {}
    switches = {name: group.get(name) for name in ("foreach", "fused", "capturable")}
    return {"name": type(optimizer).__name__, "tensors": tensors, **switches}


def _switches(torch: Any) -> dict[str, Any]:
    distributions = sys.modules.get("torch.distributions.distribution")
    return {
        "anomaly": torch.is_anomaly_enabled(),
        "validate": bool(distributions and distributions.Distribution._validate_args),
        "threads": torch.get_num_threads(),
        "matmul": torch.get_float32_matmul_precision(),
    }


def gemm_rate(seconds: float = 0.02) -> float | None:
    """Floating-point operations per second that torch reaches here on a product of 256 x 256 matrices, with its threads."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    with suppress(Exception), torch.inference_mode():
        a = torch.ones(256, 256, dtype=torch.float32, device="cpu")
        best = float("inf")
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            begin = time.perf_counter()
            torch.mm(a, a)
            best = min(best, time.perf_counter() - begin)
        return float(2 * 256**3 / best)
    return None


def sources(sampler: Sampler) -> dict[str, str]:
    """The user's own files that were seen at work, as they are now."""
    found: dict[str, str] = {}
    for name, path in sampler.files(is_users).items():
        with suppress(OSError, UnicodeDecodeError), io.open_code(str(path)) as file:  # as Python reads it, changed or not
            text = file.read().decode()
            if sum(map(len, found.values())) + len(text) < MOST_SOURCE:
                found[name] = text
    return found
