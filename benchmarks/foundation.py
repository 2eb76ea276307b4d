"""Snake's kernel against its reference, and batched replay writes against a loop over transitions. One core.

python benchmarks/foundation.py
"""

import sys
from collections import deque
from collections.abc import Callable

import numpy as np
import torch
from side_by_side import interleave, pin_to_one_core, save, speedup

import hotlap
from hotlap.core import stages
from hotlap.core.clock import StageClock
from hotlap.train.replay import Replay, VectorStep

KERNEL_GOAL, REPLAY_GOAL = 300, 50
ENVS = 4_096


def play(features: str, num_envs: int, turbo: bool, steps: int) -> Callable[[], int]:
    """A contender that plays `steps` vector steps at random and counts environment steps."""
    env = hotlap.make_vec("snake", num_envs, turbo=turbo, features=features, seed=0)
    env.reset()
    actions = np.random.default_rng(0).integers(0, 3, (steps, num_envs))

    def run() -> int:
        for action in actions:
            env.step(action)
        return steps * num_envs

    return run


def kernel(features: str, num_envs: int) -> dict[str, object]:
    contenders = {
        "reference": play(features, 64, turbo=False, steps=4 if features == "flood" else 40),
        "kernel": play(features, num_envs, turbo=True, steps=256 * ENVS // num_envs // 4),
    }
    result = speedup(interleave(contenders), "reference", "kernel")
    return result if features == "grid" else {**result, "goal": KERNEL_GOAL}


def replay(num_envs: int = 256) -> dict[str, object]:
    """The seed's habit, one `push` per transition with `.cpu()` and `.item()`, against one batched `add`."""
    obs, next_obs = torch.rand(num_envs, 11), torch.rand(num_envs, 11)
    action = torch.randint(3, (num_envs,))
    reward = torch.rand(num_envs)
    done = torch.zeros(num_envs, dtype=torch.bool)
    memory: deque[tuple[object, ...]] = deque(maxlen=100_000)
    buffer = Replay(100_000, num_envs, (11,), torch.float32, gamma=0.99)

    def loop() -> int:
        for i in range(num_envs):
            memory.append((obs[i].cpu().numpy(), action[i].item(), reward[i].item(), next_obs[i].cpu().numpy(), done[i].item()))
        return num_envs

    def batched() -> int:
        for _ in range(100):
            buffer.add(VectorStep(obs, action, reward, next_obs, done, done))
        return 100 * num_envs

    samples = interleave({"loop": loop, "batched": batched}, rounds=30)
    return {**speedup(samples, "loop", "batched"), "goal": REPLAY_GOAL}


def stage(enabled: bool) -> Callable[[], int]:
    """A contender that opens and closes empty stages, back to back."""
    clock = StageClock(enabled=enabled)

    def run() -> int:
        with clock.iteration():
            for _ in range(2_000):
                with clock.stage(stages.COLLECT):
                    pass
        clock.take()
        return 2_000

    return run


def main() -> None:
    pin_to_one_core()
    torch.set_num_threads(1)
    results = {
        f"snake {f}, {n} envs: kernel / reference": kernel(f, n) for f in ("basic", "flood", "grid") for n in (256, ENVS)
    }
    results["replay, 256 envs: batched add / loop"] = replay()
    results["clock: an empty stage, off / on"] = speedup(interleave({"on": stage(True), "off": stage(False)}), "on", "off")
    sys.exit(0 if save("foundation", "python benchmarks/foundation.py", results) else 1)


if __name__ == "__main__":
    main()
