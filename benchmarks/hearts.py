"""Hearts: the kernel against OpenSpiel, with the observation and the legal cards of every decision. One core.

Both replay hands that were recorded before, so that no time goes into choosing cards; deals are part of it. OpenSpiel does
so in about 2 us a decision, faster than at random play.

pip install open_spiel && python benchmarks/hearts.py
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from side_by_side import interleave, pin_to_one_core, save, speedup

import hotlap
from hotlap.train.rating import play_at_random

GOALS = {"bytes, 256 tables": 10, "sparse, 256 tables": 30, "sparse, 2,048 tables": 30}
STEPS = 512  # of each table; about nine hands
HANDS = 200  # of OpenSpiel in a round


def record(num_envs: int) -> NDArray[np.int64]:
    """Random legal cards, [steps, tables], of environments with seed 0."""
    env = hotlap.make_vec("hearts", num_envs, seed=0, observation="sparse")
    rng = np.random.default_rng(0)
    obs, info = env.reset()
    actions = np.zeros((STEPS, num_envs), np.int64)
    for step in range(STEPS):
        actions[step] = play_at_random(obs, info["action_mask"], rng)
        obs, _, _, _, info = env.step(actions[step])
    return actions


def kernel(observation: str, actions: NDArray[np.int64]) -> Callable[[], int]:
    """A contender that replays recorded cards, all tables at once."""
    env = hotlap.make_vec("hearts", actions.shape[1], seed=0, observation=observation)

    def run() -> int:
        env.reset(seed=0)
        for action in actions:
            env.step(action)
        return actions.size

    return run


def open_spiel(pyspiel: Any, make_observation: Any) -> Callable[[], int]:
    """A contender that replays recorded hands in OpenSpiel, its fastest way to observe: `set_from` into one array."""
    game = pyspiel.load_game("hearts")
    observer = make_observation(game, pyspiel.IIGObservationType(perfect_recall=True))
    rng = np.random.default_rng(0)
    hands = []
    for _ in range(HANDS):
        state = game.new_initial_state()
        while not state.is_terminal():
            state.apply_action(int(rng.choice(state.legal_actions())))
        hands.append(state.history())

    def run() -> int:
        decisions = 0
        for history in hands:
            state = game.new_initial_state()
            for action in history:
                if not state.is_chance_node():
                    observer.set_from(state, state.current_player())
                    state.legal_actions()
                    decisions += 1
                state.apply_action(action)
        return decisions

    return run


def main() -> None:
    try:
        import pyspiel
        from open_spiel.python.observation import make_observation
    except ImportError:
        sys.exit("OpenSpiel is not installed: pip install open_spiel")
    pin_to_one_core()
    few, many = record(256), record(2_048)
    contenders = {
        "OpenSpiel": open_spiel(pyspiel, make_observation),
        "bytes, 256 tables": kernel("bytes", few),
        "bytes, 2,048 tables": kernel("bytes", many),
        "sparse, 256 tables": kernel("sparse", few),
        "sparse, 2,048 tables": kernel("sparse", many),
    }
    samples = interleave(contenders)
    results = {}
    for name in list(contenders)[1:]:
        result = speedup({contender: samples[contender] for contender in ("OpenSpiel", name)}, "OpenSpiel", name)
        goal = {"goal": GOALS[name]} if name in GOALS else {}  # bytes of many tables do not fit the caches
        results[f"hearts, {name}: kernel / OpenSpiel"] = {**result, **goal}
    sys.exit(0 if save("hearts", "python benchmarks/hearts.py", results) else 1)


if __name__ == "__main__":
    main()
