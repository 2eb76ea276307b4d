"""Is the GPU worth it for Snake's small network? The same training on both devices, interleaved. Needs a GPU.

python benchmarks/devices.py
"""

import random
from typing import Any

from side_by_side import err, save
from snake import hotlap

from hotlap.core import stats

ROUNDS = 5


def main() -> None:
    coin = random.Random(0)
    seconds: dict[str, list[float]] = {"cpu": [], "cuda": []}
    last: dict[str, dict[str, Any]] = {}
    for number in range(ROUNDS):
        for device in coin.sample(list(seconds), 2):
            err.print(f"round {number + 1} of {ROUNDS}: {device}")
            last[device] = hotlap("profile", "snake", "--device", device, "--iterations", "10")
            seconds[device].append(last[device]["iterations"]["seconds"]["median"])
    ratio, low, high = stats.paired_ratio(seconds["cuda"], seconds["cpu"])
    rates = {device: last[device]["throughput"]["env_steps_per_s"] for device in last}
    result = {"speedup": ratio, "ci95": [low, high], "seconds": seconds, "env_steps_per_s": rates}
    result |= {"gpu_busy": last["cuda"]["gpu_busy"], "profiles": last}
    save("snake_devices", "python benchmarks/devices.py", {"snake fast, one iteration: cpu / cuda": result})


if __name__ == "__main__":
    main()
