"""Runs targets in turns: fresh processes that work a block each, in random order, so that noise hits all of them alike.

A round starts one process per side, lets all of them warm up, and then gives turns: whoever is not at work is stopped. Rounds
follow each other until the caller has enough. Every block is on disk as soon as it is over.
"""

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotlap.core.errors import RecordError, TargetFailed
from hotlap.record.run import Run

BLOCKS = "blocks.jsonl"
_HIDDEN = ("HOTLAP_INTERVENE", "HOTLAP_TOOK")  # variables that hold paths of this machine
_PATIENCE = 600.0  # seconds that a process may take to warm up, or for one block


@dataclass(frozen=True)
class Side:
    """One of the things that are compared: a system with its config, or a script with its arguments."""

    name: str
    target: str
    system: str | None = None
    algorithm: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    script: str | None = None
    module: bool = False
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    env_only: bool = False

    def facts(self) -> dict[str, Any]:
        """What a record may say: no path of this machine."""
        shown = {"system": self.system, "config": self.config} if self.system else {"script": self.target}
        return {
            "name": self.name,
            "target": self.target,
            **shown,
            "arguments": list(self.arguments),
            "environment": {name: value for name, value in self.environment.items() if name not in _HIDDEN},
            "env_only": self.env_only,
            "algorithm": self.algorithm,
        }


@dataclass(frozen=True)
class Turn:
    """A block as it is recorded: which round, which turn in it, whose, and what was done (see `probe.turns.Block`)."""

    round: int
    turn: int
    side: str
    block: dict[str, Any]


@dataclass(frozen=True)
class Options:
    block: float = 0.5  # seconds of a turn, at least
    turns: int = 6  # per round and side
    warmup: int = 2  # iterations or windows before the first turn, once learning has begun
    round: float = 20.0  # seconds after which a round has turns enough, two at least: several rounds say more than one
    seed: int = 0  # of the order of turns, and of systems: each round has its own


class SideFailed(TargetFailed):
    """One of the sides failed."""

    def __init__(self, side: Side, message: str) -> None:
        super().__init__(f"{side.name} {message}")
        self.side = side


OnTurn = Callable[[int, int, str], None]  # (round, turn, side or what goes on)


def race(
    run: Run, sides: Sequence[Side], options: Options, on_turn: OnTurn = lambda *_: None, drop: bool = False
) -> Iterator[list[Turn]]:
    """Rounds, one after the other, each as its turns, until the caller stops asking.

    A side that fails ends the race; with `drop` only its own, as long as two are left, and the record says why.
    """
    coin = random.Random(options.seed)
    sides = list(sides)
    for number in range(1, 10_000):
        while True:
            try:
                found = _round(run, sides, options, number, coin, on_turn)
                break
            except SideFailed as failure:
                if not drop or len(sides) < 3:
                    raise
                sides.remove(failure.side)
                run.update(dropped={**run.header.get("dropped", {}), failure.side.name: str(failure)})
        yield found


def _round(run: Run, sides: Sequence[Side], options: Options, number: int, coin: random.Random, on_turn: OnTurn) -> list[Turn]:
    done: list[Turn] = []
    with ExitStack() as stack:
        on_turn(number, 0, "starting")
        racers = [stack.enter_context(_Racer(run.path, side, options, number, i)) for i, side in enumerate(sides, 1)]
        for racer in racers:
            racer.wait()
            racer.pause()
        began = time.monotonic()
        for turn in range(1, options.turns + 1):
            if turn > 2 and time.monotonic() - began > options.round:
                break
            for racer in coin.sample(racers, len(racers)):
                on_turn(number, turn, racer.side.name)
                racer.go()
                block = racer.wait()
                racer.pause()
                done.append(Turn(number, turn, racer.side.name, block))
                _append(run.path / BLOCKS, done[-1])
    return done


class _Racer:
    """A process that works when it is told to."""

    def __init__(self, folder: Path, side: Side, options: Options, number: int, place: int) -> None:
        self.side = side
        self._spec = folder / f"round-{number}-{place}.json"
        self._log = folder / f"output-{place}.log"
        go_read, self._go = os.pipe()
        self._told, tell_write = os.pipe()
        self._text = b""
        config = {**side.config, "seed": side.config["seed"] + number - 1} if side.system else {}
        spec = {
            "go": go_read,
            "tell": tell_write,
            "parent": os.getpid(),
            "block": options.block,
            "warmup": options.warmup,
            "system": side.system,
            "algorithm": side.algorithm,
            "config": config,
            "env_only": side.env_only,
            "script": side.script,
            "module": side.module,
        }
        self._spec.write_text(json.dumps(spec))
        command = [sys.executable, "-m", "hotlap.launch.blocks", str(self._spec.resolve()), *side.arguments]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **side.environment},
                pass_fds=(go_read, tell_write),
                start_new_session=True,  # it gets no Ctrl-C, and can be stopped with all its workers
            )
        os.close(go_read)
        os.close(tell_write)

    def __enter__(self) -> "_Racer":
        return self

    def go(self) -> None:
        self._signal(signal.SIGCONT)
        with suppress(BrokenPipeError):
            os.write(self._go, b"g")

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def wait(self) -> dict[str, Any]:
        """What the process says next: that it is ready, or what its block was."""
        deadline = time.monotonic() + _PATIENCE
        while b"\n" not in self._text:
            chunk: bytes | None = None
            if select.select([self._told], [], [], 0.5)[0]:
                chunk = os.read(self._told, 65536)
            elif time.monotonic() > deadline:
                raise SideFailed(self.side, f"did nothing for {_PATIENCE:.0f} s{self._tail()}")
            elif self._process.poll() is not None:
                chunk = b""
            if chunk == b"":
                raise SideFailed(self.side, f"{self._how_it_ended()}{self._tail()}")
            self._text += chunk or b""
        line, _, self._text = self._text.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        if "error" in message:
            raise SideFailed(self.side, f"failed: {message['error']}{self._tail()}")
        return message

    def _how_it_ended(self) -> str:
        code = self._process.wait()
        if code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return "ended before enough was measured: let it train longer" if code == 0 else f"ended with exit code {code}"

    def __exit__(self, *_: object) -> None:
        """Enough: it may end by itself, and is ended if it does not."""
        os.close(self._go)
        os.close(self._told)
        self._signal(signal.SIGCONT)
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=3)
        self._signal(signal.SIGKILL)  # workers that outlived it
        self._process.wait()
        self._spec.unlink(missing_ok=True)  # it holds paths of this machine
        with suppress(OSError):
            if not self._log.stat().st_size:
                self._log.unlink()

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _tail(self) -> str:
        """The last line that the process wrote."""
        with suppress(OSError):
            lines = self._log.read_text(errors="replace").strip().splitlines()
            if lines:
                return f" (its output, {self._log}, ends with: {lines[-1][:200]})"
        return ""


def _append(path: Path, turn: Turn) -> None:
    try:
        with path.open("a") as file:
            file.write(json.dumps(vars(turn), separators=(",", ":")) + "\n")
    except OSError as error:
        raise RecordError(f"cannot write to {path}: {error.strerror}; blocks before this one are kept") from error


def read_turns(folder: Path) -> list[Turn]:
    """The blocks of a race, read back strictly; one that was cut off by a kill is left out."""
    path = folder / BLOCKS
    if not path.exists():
        return []
    *whole, _unfinished = path.read_text().split("\n")
    turns = []
    for number, line in enumerate(whole, 1):
        try:
            turn = Turn(**json.loads(line))
            if not (
                turn.block["wall"] > 0 and isinstance(turn.block["counts"], dict) and isinstance(turn.block["stages"], dict)
            ):
                raise ValueError("a block needs wall, counts and stages")
            turns.append(turn)
        except (ValueError, TypeError, KeyError) as error:
            raise RecordError(f"{path} line {number} is damaged: {error}") from error
    return turns
