"""Data-parallel training: several processes, started by torchrun, that learn as one.

    torchrun --nproc-per-node 2 -m hotlap train CartPole-v1

Each has its share of the environments and of every minibatch; gradients, and the moments by which advantages are normalised,
are those of all. Process 0 keeps the record. In a single process everything here does nothing.
"""

import os
import re
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from safetensors.numpy import load as unpack
from safetensors.numpy import save as pack
from torch import Tensor


def world() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_initialized() else 1


def rank() -> int:
    """Which of them this is."""
    return dist.get_rank() if dist.is_initialized() else 0


def row_seeds(entropy: list[int], rows: int) -> list[int]:
    """Seeds for the rows of this process: those of one process with all the rows.

    Not seed + i, with which runs of neighbouring seeds would share most of their environments.
    """
    first = rank() * rows
    return np.random.SeedSequence(entropy).generate_state(first + rows)[first:].tolist()  # type: ignore[no-any-return]


def seed(entropy: int, *stream: int) -> int:
    """The seed of a random stream of this process, one for each further number."""
    key = (rank(), *stream)
    return int(np.random.SeedSequence([entropy, *key]).generate_state(1, np.uint64)[0]) >> 1 if any(key) else entropy


def generator(device: torch.device, entropy: int, *stream: int) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed(entropy, *stream))


def restore(generator: torch.Generator, saved: NDArray[np.uint8] | None, entropy: int, *stream: int) -> None:
    """Where it was when it was saved; a new stream if that was on another kind of device, or there were fewer streams."""
    if saved is not None and len(saved) == len(generator.get_state()):
        generator.set_state(torch.from_numpy(np.array(saved)))
    else:
        generator.manual_seed(seed(entropy, *stream))


def use(device: str) -> None:
    """Make a GPU that was named by its number the current one: kernels are launched there."""
    if device.startswith("cuda:"):
        torch.cuda.set_device(device)


def join(config: Any) -> Any:
    """Join the other processes that torchrun started; returns this process's share of the config."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        return config
    if not hasattr(config, "horizon"):
        raise ValueError("only PPO trains in several processes")
    for name in ("num_envs", "batch_size"):
        if getattr(config, name) % count:
            raise ValueError(
                f"{name.replace('_', '-')} must be a multiple of the {count} processes, not {getattr(config, name)}"
            )
    device = config.device
    if device == "cuda":
        device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
        use(device)
    if not dist.is_initialized():
        dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    return replace(config, num_envs=config.num_envs // count, batch_size=config.batch_size // count, device=device)


def leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def mean(tensor: Tensor) -> Tensor:
    """In place: the mean over all processes."""
    if dist.is_initialized():
        dist.all_reduce(tensor)
        tensor.div_(dist.get_world_size())
    return tensor


def total(tensor: Tensor) -> Tensor:
    """In place: the sum over all processes."""
    if dist.is_initialized():
        dist.all_reduce(tensor)
    return tensor


def same(tensor: Tensor) -> None:
    """In place: what process 0 has."""
    if dist.is_initialized():
        dist.broadcast(tensor, 0)


def least(number: int, device: torch.device) -> int:
    """The smallest of all processes' numbers."""
    if not dist.is_initialized():
        return number
    smallest = torch.tensor([number], device=device)
    dist.all_reduce(smallest, dist.ReduceOp.MIN)
    return int(smallest)


def total_of(number: int, device: torch.device) -> int:
    """The sum of all processes' numbers."""
    return int(total(torch.tensor([number], device=device))) if dist.is_initialized() else number


def any_of(*flags: bool, device: str = "cpu") -> list[bool]:
    """Which flags are set in any process."""
    if not dist.is_initialized():
        return list(flags)
    asked = torch.tensor([float(flag) for flag in flags], device=device)
    dist.all_reduce(asked, dist.ReduceOp.MAX)
    return [value > 0 for value in asked.tolist()]


def gather(arrays: dict[str, NDArray[Any]], device: str = "cpu") -> dict[str, NDArray[Any]]:
    """On process 0: its arrays, and those of the others under `rank1/` and so on."""
    if not dist.is_initialized():
        return arrays
    packed = torch.frombuffer(bytearray(pack({k: np.asarray(v, order="C") for k, v in arrays.items()})), dtype=torch.uint8)
    sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(world())]
    dist.all_gather(sizes, torch.tensor([len(packed)], device=device))
    longest = max(int(size) for size in sizes)
    padded = torch.zeros(longest, dtype=torch.uint8, device=device)
    padded[: len(packed)] = packed
    parts = [torch.empty_like(padded) for _ in range(world())]
    dist.all_gather(parts, padded)
    gathered = dict(arrays)
    for number in range(1, world()):
        other = unpack(parts[number][: int(sizes[number])].cpu().numpy().tobytes())
        gathered |= {f"rank{number}/{name}": array for name, array in other.items()}
    return gathered


def own_part(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """What `gather` stored for this process."""
    ranks = {name: int(found[1]) if (found := re.match(r"rank([1-9][0-9]{0,5})/", name)) else 0 for name in arrays}
    saved = 1 + max(ranks.values(), default=0)
    if saved != world():
        raise ValueError(f"this run was trained by {saved} processes, not {world()}: resume it with as many")
    return {name.partition("/")[2] if rank() else name: array for name, array in arrays.items() if ranks[name] == rank()}
