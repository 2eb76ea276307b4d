"""Hearts: PPO's update at the report's recipe, hotlap's against a straightforward dense one with the same math. One core.

Both learn from the same 4,000 decisions in minibatches of 32, with attention over five observations (128 wide, two layers) and
dropout: torch's own modules on 25,444 floats a row (`plain_hearts.py`), its Adam and its clipping, against hotlap.
The report's option 1 (64 wide, one layer, minibatches of 64, 6 epochs of 6,000) is measured as a whole, per decision and epoch
count: one iteration's updates against the other's.

python benchmarks/hearts_update.py
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from plain_hearts import PlainPolicy
from side_by_side import interleave, pin_to_one_core, save, speedup

from hotlap.core.clock import StageClock
from hotlap.systems import hearts, load
from hotlap.train import ppo
from hotlap.train.metrics import Metrics

GOAL = 1.6
TABLES = 8
UPDATES = 40  # of a round


def collected(config: hearts.Config) -> ppo.State:
    """A run that has collected its first decisions, from the kernel: what updates take does not depend on who stepped."""
    system = load("hearts")
    rows = config.num_envs * config.horizon
    config = replace(config, turbo=True, workers=0, num_envs=TABLES, horizon=rows // TABLES)
    env = system.make_env(config)
    state: ppo.State = system.start(config, env)
    ppo.collect(state, config, env, StageClock(), Metrics())
    ppo.compute_advantages(state, config)
    return state


def shipped(config: hearts.Config) -> Callable[[], int]:
    """Some updates as `ppo.learn` makes them."""
    state, clock = collected(config), StageClock()
    state.entropy_weight.fill_(config.entropy)

    def run() -> int:
        state.net.train()
        draws = state.batches.draw(state.generators[0], 0.0)
        for _ in range(UPDATES):
            state.learn_from(clock, *next(draws))
        return UPDATES

    return run


def plain(config: hearts.Config) -> Callable[[], int]:
    """The same updates on the same decisions, as one would first write them."""
    state = collected(config)
    net = PlainPolicy(128, 4, 2)
    net.load(state.net)
    optimizer = torch.optim.Adam(net.parameters(), lr=config.learning_rate, eps=1e-5)
    rows = state.rollout.obs[:-1].flatten(0, 1)
    size = 5 * 5088 + 4
    dense = torch.zeros(len(rows), size + 1).scatter_(1, rows[:, 1:].long(), 1.0)[:, :-1].contiguous()
    check_equal(state, net, rows[:64], dense[:64])
    numbered = state.rollout
    numbered.obs = torch.arange(len(rows) + TABLES).view(-1, TABLES)  # of minibatches, to find the dense rows by
    loss = partial(ppo.ppo_loss, state.actions, config)

    def run() -> int:
        net.train()
        draws = state.batches.draw(state.generators[0], 0.0)
        for _ in range(UPDATES):
            (batch,) = state.batches.rows(*next(draws))
            output, value = net(dense[batch.obs])
            optimizer.zero_grad()
            loss(batch, output, value, config.entropy).loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(net.parameters(), config.grad_clip)
            optimizer.step()
        return UPDATES

    return run


def check_equal(state: ppo.State, net: PlainPolicy, rows: torch.Tensor, dense: torch.Tensor) -> None:
    """Both networks give the same, without dropout."""
    with torch.no_grad():
        for one, other in zip(state.net.eval()(rows)[:2], net.eval()(dense), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def whole_iteration(samples: list[float], config: hearts.Config) -> list[float]:
    """Seconds of an iteration's updates, per decision that it learns from."""
    return [seconds * config.epochs / config.batch_size for seconds in samples]


def main() -> None:
    pin_to_one_core()
    seed, option = hearts.SEED, hearts.SEED_OPTIMIZED
    contenders = {"dense": plain(seed), "hotlap": shipped(seed), "option 1": shipped(option)}
    contenders["option 1, network alone"] = shipped(replace(seed, net=option.net))
    samples = interleave(contenders)
    pair = {name: samples[name] for name in ("dense", "hotlap")}
    results = {"update of 32, hotlap / dense": {**speedup(pair, "dense", "hotlap"), "goal": GOAL}}
    alone = {"seed": samples["hotlap"], "option 1": samples["option 1, network alone"]}
    results["option 1, its network alone, per update"] = speedup(alone, "seed", "option 1")
    whole = {"seed": whole_iteration(samples["hotlap"], seed), "option 1": whole_iteration(samples["option 1"], option)}
    results["option 1, its updates, per decision"] = speedup(whole, "seed", "option 1")
    sys.exit(0 if save("hearts_update", "python benchmarks/hearts_update.py", results) else 1)


if __name__ == "__main__":
    main()
