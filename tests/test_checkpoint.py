"""Checkpoints: the manifest; damaged, incomplete and foreign ones are refused in one line, and the run is left as it was.

A fixed sample of mutations here; a thousand in `make endurance`.
"""

import dataclasses
import random
import shutil
from math import inf
from pathlib import Path

import numpy as np
import pytest

from hotlap import systems
from hotlap.core.errors import RecordError
from hotlap.core.version import __version__
from hotlap.envs.spec import EnvSpec
from hotlap.train import checkpoint, loop
from tests.broken_checkpoints import KINDS, mutate
from tests.cli import run_cli

SPEC = EnvSpec(obs_shape=(2,), obs_low=(-inf, 0.5), obs_high=3.0, action_shape=(1,), action_low=-1.0)
SOURCE = checkpoint.Source("made-up", "PPO", {"hidden": [3], "seed": 1}, SPEC)
SMALL = {"num_envs": 4, "total_steps": 400, "hidden": (8,), "workers": 0}
CONFIGS = {
    "ppo": {**SMALL, "horizon": 8, "batch_size": 16, "memory": "lstm", "normalize_obs": True},
    "dqn": {**SMALL, "iteration_steps": 16, "batch_size": 16, "buffer_size": 200, "learning_starts": 32, "priority_alpha": 0.5},
}


@dataclasses.dataclass
class Trained:
    """A short run with its checkpoint, and the same run at its start, into which checkpoints are to be loaded."""

    system: object
    config: object
    folder: Path
    env: object
    state: object

    def restore(self, folder):
        loop.restore(self.system, self.config, self.state, self.env, folder)

    def saved(self):
        arrays, numbers = self.system.trainer.save_state(self.state, self.env)
        return {name: np.array(array) for name, array in arrays.items()}, numbers


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    runs = {}
    for algorithm, values in CONFIGS.items():
        system = systems.load("CartPole-v1", algorithm)
        config = dataclasses.replace(system.preset(), **values)
        folder = tmp_path_factory.mktemp(algorithm) / "run"
        loop.train(system, config, folder, options=loop.Options(evaluation_episodes=1))
        env = system.make_env(config)
        runs[algorithm] = Trained(system, config, folder, env, system.start(config, env))
    yield runs
    for run in runs.values():
        run.env.close()


def check(trained, number, folder):
    """Restoring one mutated checkpoint is refused in one line, and nothing has changed."""
    coin = random.Random(number)
    algorithm = coin.choice(sorted(trained))
    run, other = trained[algorithm], trained["dqn" if algorithm == "ppo" else "ppo"]
    place = folder / str(number)
    place.mkdir()
    kind = KINDS[number % len(KINDS)]
    what = mutate(kind, run.folder / checkpoint.NAME, other.folder / checkpoint.NAME, place / checkpoint.NAME, coin)
    before = run.saved()
    with pytest.raises(RecordError) as refused:
        run.restore(place)
        pytest.fail(f"{number} ({algorithm}) was accepted: {kind.__name__} {what}")
    assert len(str(refused.value).splitlines()) == 1, (number, what)
    arrays, numbers = run.saved()
    assert numbers == before[1], (number, what)
    for name, array in before[0].items():
        np.testing.assert_array_equal(array, arrays[name], err_msg=f"{number} {what} {name}")
    shutil.rmtree(place)


def test_a_sample_of_mutations(trained, tmp_path):
    for number in range(2 * len(KINDS)):
        check(trained, number, tmp_path)


@pytest.mark.endurance
@pytest.mark.parametrize("part", range(10))
def test_a_thousand_mutations(trained, part, tmp_path):
    for number in range(1_000 + 100 * part, 1_100 + 100 * part):
        check(trained, number, tmp_path)


@pytest.mark.parametrize("number", [3, 11, 19, 27])
def test_through_the_command(trained, number, tmp_path):
    run, coin = trained["ppo"], random.Random(number)
    shutil.copytree(run.folder, tmp_path / "run")
    path = tmp_path / "run" / checkpoint.NAME
    path.unlink()
    mutate(KINDS[number % len(KINDS)], run.folder / path.name, trained["dqn"].folder / path.name, path, coin)
    flags = ["--resume", "run", "--total-steps", "800", "--evaluation-episodes", "1"]
    result = run_cli("train", "CartPole-v1", *flags, cwd=tmp_path, code=2)
    assert len(result.stderr.strip().splitlines()) == 1 and str(path.name) in result.stderr


def test_untouched_checkpoints_are_restored(trained):
    for run in trained.values():
        fresh = run.saved()
        run.restore(run.folder)
        found = checkpoint.load(run.folder)
        arrays, numbers = run.saved()
        assert numbers == found.numbers and numbers["env_steps"] >= 400
        assert found.source == checkpoint.Source(
            run.system.name, run.system.algorithm, found.source.config, run.env.env_spec
        ), "the environment's declaration comes back, infinite bounds included"
        assert found.version == __version__
        for name in arrays:
            if name.startswith(("net.", "optimizer.", "replay.")) and name != "replay.open":  # of episodes that are gone
                np.testing.assert_array_equal(arrays[name], found.arrays[name], err_msg=name)
        run.system.trainer.load_state(run.state, run.env, *fresh)


def test_the_manifest_comes_back(tmp_path):
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3).T, "b": np.zeros((0, 4), bool), "c": np.array(3)}
    checkpoint.save(tmp_path, arrays, {"env_steps": 1, "owed": 0.5}, SOURCE)
    found = checkpoint.load(tmp_path)
    assert found.source == SOURCE and found.numbers == {"env_steps": 1, "owed": 0.5}
    for name, array in arrays.items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array)


def test_other_runs_are_refused_by_name():
    found = checkpoint.Checkpoint(Path("run"), SOURCE, {}, {}, __version__)
    changes = {
        "of the system made-up, not other": {"system": "other"},
        "of the algorithm PPO, not DQN": {"algorithm": "DQN"},
        "another --hidden, --seed": {"config": {"hidden": (4,)}},
        "another obs_shape": {"spec": dataclasses.replace(SPEC, obs_shape=(3,))},
    }
    for message, change in changes.items():
        with pytest.raises(RecordError, match=message):
            checkpoint.check_source(found, dataclasses.replace(SOURCE, **change), frozenset())
    checkpoint.check_source(found, dataclasses.replace(SOURCE, config={"hidden": (3,), "seed": 2}), frozenset({"seed"}))


def test_the_first_schema_is_refused(tmp_path):
    path = checkpoint.save(tmp_path, {"a": np.arange(3)}, {}, SOURCE)
    path.write_bytes(path.read_bytes().replace(b"hotlap.checkpoint/2", b"hotlap.checkpoint/1"))
    with pytest.raises(RecordError, match="has schema 'hotlap"):
        checkpoint.load(tmp_path)


def test_a_checkpoint_that_cannot_be_written(tmp_path):
    (tmp_path / checkpoint.NAME).mkdir()
    with pytest.raises(RecordError, match="cannot write"):
        checkpoint.save(tmp_path, {"a": np.arange(3)}, {}, SOURCE)
