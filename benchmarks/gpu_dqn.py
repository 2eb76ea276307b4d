"""DQN on one GPU, Snake's `gpu` preset: with environments and replay memory on the host, on the device, and in CUDA graphs.

    python benchmarks/gpu_dqn.py                 throughput of the three, interleaved, and seconds to 20 apples of the last

"host" is how a script does it: environments on the CPU (already in C), replay memory in host memory (already in C), minibatches
copied to the GPU, networks, loss and Adam in eager torch. All have the same recipe.
"""

import argparse
import copy
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from side_by_side import err, interleave, save, speedup
from torch import nn

from hotlap.core.clock import StageClock
from hotlap.systems import load
from hotlap.train import td
from hotlap.train.replay import CompiledReplay, VectorStep

SYSTEM = load("snake", "dqn")
APPLES, SEEDS = 20, (0, 1, 2)
EVERY = 500_000  # steps between evaluations of 100 greedy episodes; the mean of four counts
OFF = StageClock(enabled=False)
THREADS = torch.get_num_threads()  # as a script has them


def host(config: Any, steps: int) -> Callable[[], int]:
    """Eager torch with everything but the networks on the host."""
    env = SYSTEM.make_env(replace(config, env_device="cpu"))
    spec, device = env.env_spec, torch.device("cuda")
    torch.manual_seed(config.seed)
    net = SYSTEM.trainer.make_net(config, spec, SYSTEM.net_makers()).to(device)
    target = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.Adam(net.parameters(), config.learning_rate)
    given = (config.buffer_size, config.num_envs, spec.obs_shape, torch.float32, config.gamma, config.n_step)
    replay, generator = CompiledReplay(*given), torch.Generator().manual_seed(0)
    obs, _ = env.reset(seed=0)
    updates = 0

    def act(obs: torch.Tensor, epsilon: float) -> torch.Tensor:
        with torch.no_grad():
            greedy = net(obs.to(device)).argmax(1).cpu()
        explore = torch.rand(len(obs)) < epsilon
        return torch.where(explore, torch.randint(spec.choices, (len(obs),)), greedy)

    def step() -> None:
        nonlocal obs
        before = torch.from_numpy(obs)
        action = act(before, 0.5)
        after, reward, terminated, truncated, info = env.step(action.numpy())
        obs, last = after, after
        if "_final_obs" in info:
            ended, last = info["_final_obs"], after.copy()
            last[ended] = info["final_obs"][ended]
        replay.add(VectorStep(before, action, *(torch.from_numpy(part) for part in (reward, last, terminated, truncated))))

    def update() -> None:
        nonlocal updates
        batch = replay.sample(config.batch_size, generator)
        batch = batch._replace(**{name: part.to(device) for name, part in batch._asdict().items() if part is not None})
        error = td.td_error(net, target, batch, config.double)
        loss = nn.functional.huber_loss(error, torch.zeros_like(error))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(net.parameters(), config.grad_clip)
        optimizer.step()
        updates += 1
        if updates % config.target_sync == 0:
            target.load_state_dict(net.state_dict())

    def run() -> int:
        torch.set_num_threads(THREADS)
        for _ in range(steps):
            step()
            for _ in range(int(config.updates_per_step)):
                update()
        torch.cuda.synchronize()
        return steps * len(obs)

    for _ in range(config.n_step + 2):
        step()
    return run


def hotlap(config: Any, iterations: int) -> Callable[[], int]:
    """Everything on the device; in CUDA graphs if the config says so."""
    env = SYSTEM.make_env(config)
    state = SYSTEM.start(config, env)

    def run() -> int:
        torch.set_num_threads(config.torch_threads)
        for _ in range(iterations):
            SYSTEM.trainer.iterate(state, config, env, OFF)
        return iterations * int(config.num_envs * config.iteration_steps)

    while not state.updates:
        run()
    run()
    return run


def throughput(config: Any, rounds: int) -> dict[str, Any]:
    config = replace(config, learning_starts=1)
    contenders = {
        "eager, host replay": host(config, config.iteration_steps),
        "eager, on the device": hotlap(replace(config, graphs=False), 1),
        "CUDA graphs": hotlap(config, 8),
    }
    samples = interleave(contenders, rounds)
    first, second, third = contenders
    shape = {"updates_per_env_step": config.updates_per_step / config.num_envs}
    for name, times in samples.items():
        rate = 1 / sorted(times)[len(times) // 2]
        err.print(f"{name:<22} {rate / 1e6:8.3f}M env steps/s {rate * shape['updates_per_env_step']:10,.0f} updates/s")
    return {
        "CUDA graphs against host replay": speedup(samples, first, third) | {"goal": 20} | shape,
        "on the device against host replay": speedup(samples, first, second) | shape,
        "CUDA graphs against eager, on the device": speedup(samples, second, third) | shape,
    }


def seconds_to_score(config: Any) -> dict[str, float]:
    """Seconds of training, without evaluations, until the mean of four evaluations says so; and seconds of starting before."""
    begin = time.perf_counter()
    env = SYSTEM.make_env(config)
    state, arena = SYSTEM.start(config, env), SYSTEM.make_env(replace(config, turbo=True, env_device="cpu"), 100)
    starting, seconds, due = time.perf_counter() - begin, 0.0, EVERY
    scores: list[float] = []
    while state.env_steps < config.total_steps and sum(scores[-4:]) < 4 * APPLES:
        begin = time.perf_counter()
        SYSTEM.trainer.iterate(state, config, env, OFF)
        seconds += time.perf_counter() - begin
        if state.env_steps >= due:
            due += EVERY
            scores.append(float(SYSTEM.trainer.evaluate(state, arena, 1_000_003)["score"].mean()))
    score = sum(scores[-4:]) / 4  # of fewer: too low
    return {"seconds": seconds, "starting": starting, "env_steps": state.env_steps, "updates": state.updates, "score": score}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    config = SYSTEM.presets["gpu"]
    results = throughput(config, options.rounds)
    runs = [seconds_to_score(replace(config, seed=seed)) for seed in SEEDS]
    for seed, run in zip(SEEDS, runs, strict=True):
        err.print(f"seed {seed}: {run['score']:.1f} apples after {run['seconds']:.2f} s, {run['env_steps']:,} steps")
    results["CUDA graphs against host replay"] |= {f"to {APPLES} apples": runs}
    met = save("gpu_dqn", f"python benchmarks/gpu_dqn.py --rounds {options.rounds}", results)
    sys.exit(0 if met and all(run["score"] >= APPLES for run in runs) else 1)


if __name__ == "__main__":
    main()
