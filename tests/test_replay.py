"""Kept episodes play again to the same return, bit for bit, and are shown."""

import dataclasses
import json

import numpy as np
import pytest

from hotlap import systems
from hotlap.core.errors import RecordError
from hotlap.record import episodes
from hotlap.record.episodes import EnvSource, Episode, Kept
from hotlap.report import replay as report
from hotlap.report.replay_html import as_html, css
from hotlap.report.terminal import Console
from hotlap.systems.simulation import from_ansi, play_again
from hotlap.train import rating
from hotlap.train.evaluation import play
from tests.cli import run_cli


def evaluated(name, episodes=6, seed=11, turbo=True, **changes):
    """Episodes that a player at random played, and what environment it was."""
    system = systems.load(name)
    config = dataclasses.replace(system.preset(), turbo=turbo, workers=0, **changes)
    env = system.make_env(config, episodes)
    rng = np.random.default_rng(seed)

    def choose(obs, info, fresh):
        if "action_mask" in info:
            return (rng.random(info["action_mask"].shape) * info["action_mask"]).argmax(1)
        return np.array([env.single_action_space.sample() for _ in range(env.num_envs)])

    env.single_action_space.seed(seed)
    played = play(env, seed, choose)
    env.close()
    return Kept(system.source(config), played.episodes)


@pytest.mark.parametrize(
    ("name", "turbo", "changes"),
    [
        ("snake", True, {"size": 6}),
        ("snake", False, {"size": 6, "features": "grid"}),
        ("CartPole-v1", False, {}),
        ("CartPole-v1", True, {}),
        ("Pendulum-v1", False, {}),  # actions are real numbers
        ("predators", True, {}),
        ("predators", False, {"agents": 2, "prey": 3}),
    ],
)
def test_an_episode_replays_to_the_bit(name, turbo, changes, tmp_path):
    kept = evaluated(name, 3, turbo=turbo, **changes)
    episodes.write(tmp_path, kept)
    again = episodes.read(tmp_path)
    assert len(again.episodes) == 3 and again.source == kept.source
    for episode in again.episodes:
        replay = play_again(again.source, episode)
        assert replay.reproduced and replay.frames[-1].returns == episode.returns
        assert len(replay.frames) == episode.length + 1
    assert len({episode.returns for episode in again.episodes}) > 1


@pytest.mark.parametrize("turbo", [True, False])
def test_a_game_of_turns_replays_to_the_bit(turbo, tmp_path):
    system = systems.load("connect4")
    config = dataclasses.replace(system.preset(), turbo=turbo, workers=0)
    env = system.make_env(config, 6)
    bots = rating.bots_of(env.game)
    played = rating.play(env, 5, bots["lookahead"], bots["random"], "random", {"moves": [3, 3]})
    episodes.write(tmp_path, Kept(system.source(config), played.episodes))
    for episode in episodes.read(tmp_path).episodes:
        replay = play_again(system.source(config), episode)
        assert replay.reproduced and len(episode.returns) == 2
        assert episode.score == (1 + episode.policy_return) / 2
        words = [frame.actions[i % 2] for i, frame in enumerate(replay.frames[1:])]  # the seats in turn
        assert words == [f"column {action + 1}" for action in episode.actions]
    assert episode.players == ("random", "policy") and played["score"].mean() > 0.5
    data = json.loads(as_html(replay, "connect4", 2).split('id="data">')[1].split("</script>")[0])
    assert data["colours"] == ["var(--red)", "var(--yellow)"]  # as X and O are drawn
    names = report.player_names(episode)
    assert names == ("seat 1, random", "seat 2, policy") and report.outcome(1.0) == "the policy won"


def test_agents_that_starved_do_not_act():
    kept = evaluated("predators", 2)
    for episode in kept.episodes:
        replay = play_again(kept.source, episode)
        lengths = [sum(frame.actions[agent] != "" for frame in replay.frames) for agent in range(4)]
        assert max(lengths) == episode.length and min(lengths) < episode.length  # at random, some starve early
        assert report.player_names(episode)[3] == "agent 4"


def test_an_episode_that_went_otherwise_is_said():
    kept = evaluated("snake", 1)
    episode = dataclasses.replace(kept.episodes[0], returns=(1e9,))
    replay = play_again(kept.source, episode)
    assert not replay.reproduced and "this is not how it went" in report.warning(replay)


def test_text_of_an_environment_is_shown():
    source = EnvSource("", "FrozenLake-v1", {"is_slippery": False})
    replay = play_again(source, Episode(0, 3, (2, 2), (0.0,)))
    text = report.plain(replay.frames[2].picture)
    assert "SFFF" in text and "(Right)" in text
    assert "\x1b" not in text and from_ansi("\x1b[41mS\x1b[0mF") == [[("S", "on color(1)"), ("F", "")]]
    assert replay.frames[1].actions == ("2",)


# -- the file --


def test_it_ends_before_it_gets_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(episodes, "MOST_BYTES", 400)
    some = tuple(Episode(i, i, (0,) * 50, (1.0,)) for i in range(9))
    episodes.write(tmp_path, Kept(EnvSource("snake"), some))
    assert episodes.read(tmp_path).episodes == some[:1]
    assert (tmp_path / "episodes.jsonl").stat().st_size <= 400


HEAD = '{"schema":"hotlap.episodes/1","source":{"game":"snake","gym":"","options":{}}}\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("{", "line 1 is damaged"),
        ('{"schema":"other","source":{"game":"snake"}}', "has schema 'other'"),
        ('{"schema":"hotlap.episodes/1","source":{"game":"","gym":""}}', "must name one environment"),
        (HEAD + "[1]", "line 2 is damaged"),
        (HEAD + '{"number":0,"seed":1,"actions":[],"returns":[1]}', "line 2 is damaged"),
        (HEAD + '{"number":0,"seed":1,"actions":["up"],"returns":[1]}', "actions are numbers"),
        (HEAD + '{"number":0,"seed":-1,"actions":[0],"returns":[1]}', "at least 0"),
        (HEAD + '{"number":0,"seed":1,"actions":[0],"returns":[1,2]}', "line 2 is damaged"),
        (HEAD + '{"number":0,"seed":1,"actions":[0],"returns":[NaN]}', "line 2 is damaged"),
        (HEAD + '{"number":0,"seed":1,"actions":[0', "line 2 is damaged"),
    ],
)
def test_a_damaged_file_is_one_clear_line(tmp_path, text, message):
    (tmp_path / "episodes.jsonl").write_text(text)
    with pytest.raises(RecordError, match=message):
        episodes.read(tmp_path)


@pytest.mark.parametrize("action", [7, -1, [0, 1], 0.5, 2**70])
def test_actions_that_do_not_fit_are_one_clear_line(action):
    with pytest.raises(RecordError, match="episode 4 cannot be played again"):
        play_again(EnvSource("snake"), Episode(4, 1, (action,), (0.0,)))


@pytest.mark.parametrize("game", ["os:system", "hotlap.envs.snake.reference:Snake", "nothing"])
def test_a_record_makes_nothing_but_games(game):
    """A record may come from anywhere: it must not be able to call what it names."""
    with pytest.raises(RecordError, match="is no game of hotlap's or of an installed plugin"):
        play_again(EnvSource(game, "", {"command": "true"}), Episode(0, 1, (0,), (0.0,)))


def test_an_environment_that_is_not_here_is_one_clear_line():
    for source in (EnvSource("", "Nothing-v0"), EnvSource("snake", "", {"size": "big"}), EnvSource("snake", "", {"x": 1})):
        with pytest.raises(RecordError, match="cannot be made"):
            play_again(source, Episode(0, 1, (0,), (0.0,)))


def test_the_module_of_an_environment_is_imported_only_if_asked_for(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    text = (
        "import gymnasium\ngymnasium.register('Copy-v0', 'gymnasium.envs.classic_control:CartPoleEnv', max_episode_steps=9)\n"
    )
    (tmp_path / "copies.py").write_text(text)
    flags = ["--num-envs", "2", "--horizon", "8", "--batch-size", "16", "--total-steps", "16", "--workers", "0"]
    run_cli("train", "copies:Copy-v0", *flags, "--evaluation-episodes", "2", "--out", "run", cwd=tmp_path)
    said = run_cli("replay", "run", cwd=tmp_path, code=2).stderr
    assert "copies:Copy-v0 is registered by a module of yours: add --module copies" in said
    assert json.loads(run_cli("replay", "run", "--module", "copies", "--json", cwd=tmp_path).stdout)["reproduced"]


def test_ranks():
    some = [Episode(i, 0, (0,), (value,)) for i, value in enumerate((3.0, -1.0, 7.0))]
    assert [episode.number for episode in episodes.in_order(some)] == [1, 0, 2]


# -- shown --


def test_the_page_holds_every_frame():
    kept = evaluated("snake", 1, size=6)
    replay = play_again(kept.source, kept.episodes[0])
    page = as_html(replay, "snake</script>", 5)
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert len(data["frames"]) == len(replay.frames) and data["fps"] == 5
    for frame, shown in zip(replay.frames, data["frames"], strict=True):
        lines = ["".join(runs[::2]) for runs in shown["p"]]
        assert lines == ["".join(text for text, _ in line) for line in frame.picture]
    assert "snake&lt;/script&gt;" in page and "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert css("bold red") == "color:var(--red);font-weight:700" and css("dim") == "opacity:0.5"
    assert css("on color(1)") == "background:var(--red)"
    assert css("black on yellow") == "color:var(--black);background:var(--yellow)" and css("no such style") == ""


def test_the_animation_shows_every_frame(capsys):
    kept = evaluated("snake", 1, size=6)
    replay, waited = play_again(kept.source, kept.episodes[0]), []
    report.animate(replay, Console(force_terminal=True, width=80), 4, waited.append)
    assert waited == [0.25] * len(replay.frames)
    report.animate(replay, Console(width=80), 4)
    assert f"step {replay.episode.length}/{replay.episode.length}" in capsys.readouterr().out


def test_through_the_command_line(tmp_path):
    flags = ["--num-envs", "8", "--iteration-steps", "8", "--learning-starts", "64", "--updates-per-step", "1", "--size", "6"]
    run_cli("train", "snake", *flags, "--total-steps", "200", "--evaluation-episodes", "4", "--out", "run", cwd=tmp_path)
    listed = json.loads(run_cli("replay", "run", "--list", "--json", cwd=tmp_path).stdout)["episodes"]
    assert [episode["number"] for episode in listed] == [0, 1, 2, 3]
    assert "Episodes of snake" in run_cli("replay", "run", "--list", cwd=tmp_path).stdout
    shown = run_cli("replay", "run", "--episode", "1", cwd=tmp_path).stdout
    assert shown.startswith("snake, episode 1: ") and "step 0/" in shown and "action " in shown
    document = json.loads(run_cli("replay", "run", "--json", cwd=tmp_path).stdout)
    best = max(listed, key=lambda episode: (episode["returns"], episode["number"]))
    assert document["reproduced"] and document["episode"]["number"] == best["number"]
    assert document["frames"][-1]["returns"] == best["returns"]
    page = run_cli("replay", "run", "--episode", "worst", "--format", "html", cwd=tmp_path).stdout.strip()
    assert (tmp_path / page).read_text().startswith("<!doctype html>")
    wrong = run_cli("replay", "run", "--episode", "9", cwd=tmp_path, code=2).stderr
    assert "--episode 9: choose a number from 0 to 3, or best, worst, median" in wrong
    (tmp_path / "run" / "episodes.jsonl").unlink()
    assert "kept no episodes" in run_cli("replay", "run", cwd=tmp_path, code=2).stderr
