"""`hotlap play` at a pipe and at a terminal, driven through its input."""

import contextlib
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time

import pytest

from hotlap.verbs.keyboard import key_of
from tests.cli import run_cli


def played(monkeypatch, cwd, typed, *arguments, code=0):
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    return run_cli("play", *arguments, cwd=cwd, code=code)


def test_snake_by_lines(monkeypatch, tmp_path):
    """From the centre up to the wall: five free cells, then death."""
    result = played(monkeypatch, tmp_path, "w\n\nx\n\n\n\n\nd\n", "snake", "--seed", "2", "--json")
    outcome = json.loads(result.stdout)
    assert outcome["over"] and outcome["seed"] == 2 and outcome["against"] is None
    assert outcome["actions"] == [1, 0, 0, 0, 0, 0]  # left of heading right is up; then straight
    assert outcome["returns"][0] < 0.0  # a step towards food is worth little, death -10
    assert "type W, A, S or D, not 'x'" in result.stderr and "^" in result.stderr and "Over after 6 steps" in result.stderr


def test_connect4_against_a_bot(monkeypatch, tmp_path):
    """`first` fills column 1 from the bottom: four stones in column 7 win."""
    flags = ["connect4", "--against", "first", "--seed", "1"]
    result = played(monkeypatch, tmp_path, "?\n9\nseven\n7\n7\n7\n7\n", *flags)
    assert result.stdout.count("your move>") == 7  # asked again after help and two wrong moves
    assert "You can play: column 1, " in result.stdout and "type a column from 1 to 7, not '9'" in result.stdout
    assert "first plays column 1" in result.stdout and "X wins" in result.stdout and "You win." in result.stdout
    result = played(monkeypatch, tmp_path, "7\n7\n7\n", *flags, "--seat", "2", "--json")
    outcome = json.loads(result.stdout)
    assert outcome["over"] and outcome["returns"] == [1.0, -1.0] and outcome["actions"] == [0, 6, 0, 6, 0, 6, 0]
    assert "You lose." in result.stderr


def test_connect4_against_a_trained_policy(monkeypatch, tmp_path):
    flags = ["--num-envs", "8", "--horizon", "8", "--batch-size", "64", "--total-steps", "64", "--hidden", "8"]
    run_cli("train", "connect4", *flags, "--evaluation-episodes", "2", "--out", "run", cwd=tmp_path)
    result = played(monkeypatch, tmp_path, "4\n3\nq\n", "connect4", "--against", "run", "--json")
    outcome = json.loads(result.stdout)
    assert outcome["against"] == "run" and not outcome["over"] and "The game is left as it is." in result.stderr
    assert len(outcome["actions"]) == 4 and outcome["actions"][::2] == [3, 2]
    run_cli("train", "snake", "--total-steps", "256", "--evaluation-episodes", "2", "--out", "other", cwd=tmp_path)
    wrong = played(monkeypatch, tmp_path, "", "connect4", "--against", "other", code=2).stderr
    assert "is a policy for snake, not for connect4" in wrong


def test_hearts_against_a_trained_policy(monkeypatch, tmp_path):
    """It sees what it was trained on, which is not what the game shows by itself."""
    flags = ["--num-envs", "8", "--horizon", "8", "--batch-size", "64", "--total-steps", "64", "--hidden", "8"]
    run_cli("train", "hearts", *flags, "--evaluation-episodes", "4", "--out", "run", cwd=tmp_path)
    result = played(monkeypatch, tmp_path, "q\n", "hearts", "--against", "run", "--seat", "4", "--seed", "1", "--json")
    outcome = json.loads(result.stdout)
    assert outcome["against"] == "run" and len(outcome["actions"]) == 9  # three seats have passed three cards each
    assert result.stderr.count("(run) plays face down") == 9


def test_petri_alone(monkeypatch, tmp_path):
    moves = ["?", "t_s1", "u_LP_s1", "u_LP_s2", "t_s1", "wait"]
    result = played(monkeypatch, tmp_path, "\n".join([*moves, "q", ""]), "petri", "--seed", "1", "--json")
    outcome = json.loads(result.stdout)
    assert outcome["against"] is None and outcome["returns"] == [-5.0 + 5.0 + 5.0] and len(outcome["actions"]) == 3
    assert "You can play: u_LP_s1, WAIT." in result.stderr and "t_s1 cannot fire now" in result.stderr
    assert "there is no transition 'u_LP_s2'" in result.stderr and "Left after 3 steps: " in result.stderr


def test_it_can_be_left(monkeypatch, tmp_path):
    for typed in ("q\n", "", "wdq\n"):
        result = played(monkeypatch, tmp_path, typed, "snake", "--seed", "1")
        assert "Left after" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["CartPole-v1"], "CartPole-v1 cannot be played at the keyboard; these can: hearts, snake, connect4, petri\n"),
        (["petri", "--against", "random"], "petri has one seat: leave out --against and --seat"),
        (["snake", "--against", "random"], "snake has one seat: leave out --against and --seat"),
        (["snake", "--fps", "0"], "--fps must be above 0, not 0"),
        (["snake", "--seed", "-1"], "--seed must be at least 0, not -1"),
        (["chess"], "unknown target 'chess'"),
        (["predators"], "predators cannot be played at the keyboard"),
        (["connect4", "--seat", "3"], "--seat must be from 1 to 2, not 3"),
        (["connect4", "--against", "nobody"], "--against nobody: no bot (random, first, lookahead), and no run 'nobody'"),
    ],
)
def test_what_cannot_be_played_is_one_clear_line(monkeypatch, tmp_path, arguments, message):
    result = played(monkeypatch, tmp_path, "", *arguments, code=2)
    assert message in result.stderr and len(result.stderr.strip().splitlines()) == 1


def test_keys():
    assert [key_of(text) for text in ("\x1b[A", "\x1bOB", "C", "d", "W", "wd", "x", "", "\x1b[Cq")] == [
        *("up", "down", "", "right", "up", "right", "", "", "quit"),
    ]


def test_at_a_terminal(tmp_path):
    """The arrow key starts it; it runs into the wall by itself."""
    with at_a_terminal(tmp_path, "--fps", "50") as (process, terminal, _):
        read_until(terminal, b">")
        os.write(terminal, b"\x1b[A")
        read_until(terminal, b"Over after 6 steps")
        assert process.wait(60) == 0


def test_ctrl_c_leaves_the_terminal_as_it_was(tmp_path):
    with at_a_terminal(tmp_path) as (process, terminal, child):
        before = termios.tcgetattr(child)
        read_until(terminal, b">")  # the board is drawn: it waits for a key
        assert termios.tcgetattr(child) != before
        process.send_signal(signal.SIGINT)
        read_until(terminal, b"interrupted")
        assert process.wait(60) == 130
        assert termios.tcgetattr(child) == before


@contextlib.contextmanager
def at_a_terminal(folder, *flags):
    """`hotlap play snake` at a terminal of its own: the process, our end of the terminal, and its end."""
    parent, child = pty.openpty()
    command = [sys.executable, "-m", "hotlap", "play", "snake", "--seed", "2", *flags]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen(command, stdin=child, stdout=child, stderr=child, cwd=folder, env=environment)
    try:
        yield process, parent, child
    finally:
        process.kill()
        process.wait()
        os.close(child)
        os.close(parent)


def read_until(terminal, text, seconds=60):
    seen, until = b"", time.monotonic() + seconds
    while text not in seen and time.monotonic() < until:
        if select.select([terminal], [], [], 0.5)[0]:
            seen += os.read(terminal, 4096)
    assert text in seen, seen
