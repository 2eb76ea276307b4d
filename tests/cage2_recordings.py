"""Recordings of CybORG 2.1 (tests/data/cage2), and how an environment replays them."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import hotlap
from hotlap.envs.cage2 import truth

FOLDER = Path(__file__).parent / "data" / "cage2"
FILES = {"b_line": "bline", "meander": "meander", "sleep": "sleep"}  # by red agent
STEPS = 100
OUTCOMES = ("red_target", "red_exploit", "red_detected", "red_escalated")


@cache
def load(name):
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as arrays:
        return dict(arrays)


def outcomes(recording, episode):
    """What chance decided in each step, [100, 4]."""
    return np.stack([recording[name][episode].astype(np.int16) for name in OUTCOMES], 1)


@dataclass(frozen=True)
class Replayed:
    """What an environment did when it replayed episodes."""

    truths: dict[str, np.ndarray]  # [episodes, 101, ...]
    rewards: np.ndarray  # [episodes, 100], float32


def replay(red, episodes, turbo):
    """Replay recorded episodes, all of them at once."""
    recording = load(FILES[red])
    env = hotlap.make_vec("cage2", len(episodes), turbo=turbo, seed=0, red=red, observation="truth", replay=True)
    obs, _ = env.reset(options={"per_env": [{"outcomes": outcomes(recording, episode)} for episode in episodes]})
    seen, rewards = [obs.copy()], []
    for step in range(STEPS):
        obs, reward, _, truncated, info = env.step(recording["blue_action"][episodes, step].astype(np.int64))
        assert truncated.all() == (step == STEPS - 1)
        seen.append((info["final_obs"] if truncated.all() else obs).copy())
        rewards.append(reward.copy())
    return Replayed(truth.split(np.stack(seen, 1)), np.stack(rewards, 1))


def assert_as_recorded(red, episodes, turbo):
    """Every array of the recording at every step."""
    recording, replayed = load(FILES[red]), replay(red, episodes, turbo)
    for name, ours in replayed.truths.items():
        theirs = recording[name][episodes]
        ours = ours[:, 1:] if theirs.shape[1] == STEPS else ours  # of steps, or of states
        different = np.argwhere(ours != theirs)
        assert not len(different), (
            f"{name} of {red}: first (episode, step, ...) {different[0].tolist()}, {len(different)} in all"
        )
    np.testing.assert_array_equal(replayed.rewards, recording["reward"][episodes].astype(np.float32))
    assert_reward_parts(recording, episodes, replayed)


def assert_reward_parts(recording, episodes, replayed):
    """Costs of hosts, of the OT service and of Restore, each told apart from the true state."""
    now = {name: values[:, 1:] for name, values in replayed.truths.items()}
    costs = np.array([0.1, 1, 1, 1, 0.1, 0.1, 0.1, 1, 0, 0.1, 0.1, 0.1, 0.1], np.float32)
    np.testing.assert_array_equal((now["access"] == 2) * -costs, recording["reward_conf"][episodes])
    np.testing.assert_array_equal(np.where(now["ot"] & 1, 0, -10), recording["reward_avail"][episodes])
    np.testing.assert_array_equal(
        np.where(recording["blue_action"][episodes] >= 132, -1, 0), recording["reward_cost"][episodes]
    )
