"""Advantages and returns of a whole rollout. Replaces the loop backwards over its steps, tensor by tensor.

Time is the first axis of everything: [T], [T, envs], or more. Inputs are numpy arrays or torch tensors; the result is of their
kind. What does not depend on the step after is computed for all steps at once; the loop that is left does two operations a
step, on numpy's views of the tensors. Tensors that want gradients stay tensors. Tensors on a GPU are copied to the CPU once.

Proven in tests/test_fast.py: bit for bit the loop as CleanRL and most others write it, in float32 and float64:

    delta = rewards[t] + gamma * next_value * alive - values[t]
    advantages[t] = last = delta + gamma * lam * alive * last

Another order of the factors is equal up to rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def gae(rewards: Any, values: Any, dones: Any, gamma: float, lam: float, last_value: Any = None, last_done: Any = None) -> Any:
    """Generalised advantage estimates [T, ...].

    rewards [T, ...]: of the steps. values [T, ...]: of the states that the steps were taken in. last_value [...]: of the state
    after the last step; without it, values is [T + 1, ...]. dones [T, ...]: whether step t ended its episode. With last_done
    [...], dones say instead whether state t began a new episode, as CleanRL keeps them; last_done is that of the last state.
    """
    rewards, values, dones = map(_stacked, (rewards, values, dones))
    if last_value is not None:
        values = _joined(values, last_value)
    if last_done is not None:
        dones = _joined(dones, last_done)[1:]
    if len(values) != len(rewards) + 1:
        raise ValueError(f"{len(rewards)} rewards need {len(rewards) + 1} values, or as many and last_value; not {len(values)}")
    (rewards, values, dones), back = _as_arrays(rewards, values, dones)
    alive = 1.0 - dones[: len(rewards)]
    deltas = rewards + gamma * values[1:] * alive - values[:-1]
    return back(_scan(deltas, gamma * lam * alive, None))


def discounted(rewards: Any, dones: Any, gamma: float, last_value: Any = 0.0) -> Any:
    """Discounted returns [T, ...] of rewards [T, ...]: `ret = rewards[t] + gamma * ret * (1 - dones[t])`, from `last_value` on.

    dones [T, ...]: whether step t ended its episode.
    """
    (rewards, dones, start), back = _as_arrays(_stacked(rewards), _stacked(dones), last_value)
    if isinstance(rewards, torch.Tensor):
        start = torch.as_tensor(start, dtype=rewards.dtype, device=rewards.device)
    return back(_scan(rewards, 1.0 - dones, gamma, np.asarray(start) if isinstance(rewards, np.ndarray) else start))


def n_step(rewards: Any, dones: Any, gamma: float, n: int) -> tuple[Any, Any]:
    """Sums of the next n discounted rewards [T - n + 1, ...], and the factor [T - n + 1, ...] of the value n steps later.

    Both stop at the end of an episode: there the factor is 0. For replay buffers that learn from n-step targets:
    `target = sums + factors * value_of_state[t + n]`.
    """
    (rewards, dones), back = _as_arrays(rewards, dones)
    count = len(rewards) - n + 1
    if count < 1:
        raise ValueError(f"{n} steps need a rollout of at least {n}, not {len(rewards)}")
    factors = rewards[:count] * 0.0 + 1.0
    sums = factors * 0.0
    for k in range(n):
        sums = sums + factors * rewards[k : k + count]
        factors = factors * gamma * (1.0 - dones[k : k + count])
    return back(sums), back(factors)


def _scan(added: Any, kept: Any, factor: float | None, start: Any = None) -> Any:
    """out[t] = added[t] + kept[t] * out[t + 1], or added[t] + factor * out[t + 1] * kept[t]."""
    if isinstance(added, torch.Tensor):
        rows: list[Any] = []
        last = torch.zeros_like(added[0]) if start is None else start
        for t in range(len(added) - 1, -1, -1):
            last = added[t] + (kept[t] * last if factor is None else factor * last * kept[t])
            rows.append(last)
        return torch.stack(rows[::-1])
    out = np.empty_like(added)
    last = np.zeros_like(added[0]) if start is None else np.broadcast_to(start.astype(out.dtype), added[0].shape)
    step = np.empty_like(added[0])[...]  # [...]: an array even where a step is one number
    for t in range(len(added) - 1, -1, -1):
        if factor is None:
            np.multiply(kept[t], last, out=step)
        else:
            np.multiply(last, np.asarray(factor, out.dtype), out=step)
            np.multiply(step, kept[t], out=step)
        last = out[t : t + 1].reshape(step.shape)  # a view, so that the sum lands in `out`
        np.add(added[t], step, out=last)
    return out


def _stacked(rows: Any) -> Any:
    """A list of tensors as one tensor; anything else as it is."""
    is_list = isinstance(rows, (list, tuple)) and len(rows) > 0 and isinstance(rows[0], torch.Tensor)
    return torch.stack(list(rows)) if is_list else rows


def _joined(rows: Any, last: Any) -> Any:
    """[T, ...] and one more row."""
    if isinstance(rows, torch.Tensor):
        return torch.cat((rows, torch.as_tensor(last, dtype=rows.dtype, device=rows.device).reshape(1, *rows.shape[1:])))
    return np.concatenate((rows, np.asarray(last, np.asarray(rows).dtype).reshape(1, *np.shape(rows)[1:])))


def _as_arrays(*inputs: Any) -> tuple[list[Any], Any]:
    """numpy arrays of one floating type, and the way back to what the first input was."""
    first = inputs[0]
    if not isinstance(first, torch.Tensor):
        arrays = [np.asarray(x.detach().cpu() if isinstance(x, torch.Tensor) else x) for x in inputs]
        dtype = arrays[0].dtype if arrays[0].dtype.kind == "f" else np.dtype(np.float64)
        return [array.astype(dtype, copy=False) for array in arrays], lambda x: x
    kind = first.dtype if first.is_floating_point() else torch.float32
    tensors = [torch.as_tensor(x, device=first.device).to(kind) for x in inputs]
    wants_gradients = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    if wants_gradients or kind in (torch.bfloat16, torch.float16):
        return tensors, lambda x: x
    return [x.detach().cpu().numpy() for x in tensors], lambda x: torch.from_numpy(x).to(first.device)
