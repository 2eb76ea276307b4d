"""The lines of `samples.jsonl`: one sample each, on disk as soon as it was taken.

A process killed in the middle loses at most the line it was writing. Reading is strict, and bounded: of a very long run,
neighbouring lines of the same phase are joined, so that a report of a week's training needs no more memory than one of an hour.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotlap.core.counts import STEP_MEDIAN, STEP_P99
from hotlap.core.errors import RecordError
from hotlap.core.sample import Sample
from hotlap.record.codec import MOST_DIGITS, loads

WARMUP, MEASURED, BARE, TRACED, TRAIN = PHASES = ("warmup", "measured", "bare", "traced", "train")
MOST_LINES = 20_000  # that are kept apart
MOST_VALUES = 1_500_000  # lines times names: what is kept in memory
MOST_LINE = 32_000_000  # bytes
MOST_NAMES = 500  # stages, and counts, of one run
DEEPEST_PATH = 6
_AVERAGED = (STEP_MEDIAN, STEP_P99)  # counts that are no sums
_LINE = {"phase": str, "start": int, "wall": int, "rss": int, "stages": dict, "counts": dict}


@dataclass(frozen=True)
class Recorded:
    """A sample, the phase it was taken in, and the memory in use at its end."""

    phase: str
    sample: Sample
    rss: int
    gpu_memory: int = 0


def append_line(path: Path, line: Recorded) -> None:
    """Add a line to a file of samples, whole or not at all as far as the system allows."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        data = encode(line).encode()
        if os.write(descriptor, data) < len(data):
            raise OSError(28, "no space left on the device")
    finally:
        os.close(descriptor)


def encode(line: Recorded) -> str:
    sample = line.sample
    document: dict[str, Any] = {
        "phase": line.phase,
        "start": sample.start,
        "wall": sample.wall,
        "rss": line.rss,
        "stages": {path: [sample.exclusive[path], sample.inclusive[path], sample.calls[path]] for path in sample.exclusive},
        "counts": sample.counts,
    }
    optional = {"gpu": sample.gpu, "gpu_memory": line.gpu_memory, "threads": sample.threads, "events": sample.events}
    document.update({key: value for key, value in optional.items() if value})
    return json.dumps(document, separators=(",", ":")) + "\n"


# -- reading --


def read_lines(path: Path) -> list[Recorded]:
    """All lines of a file, the newest possibly cut off by a kill; neighbours joined where there are very many."""
    lines: list[Recorded] = []
    names: set[str] = set()
    together = 1  # how many lines of a phase make one
    open_lines: dict[str, tuple[int, int]] = {}  # phase -> where its last line lies, and how many it holds
    for number, text in enumerate(_whole_lines(path), 1):
        line = decode(text, f"{path} line {number}")
        if not names.issuperset(line.sample.exclusive) or not names.issuperset(line.sample.counts):
            names.update(line.sample.exclusive, line.sample.counts)
            if len(names) > MOST_NAMES:
                raise RecordError(f"{path} line {number} is damaged: more than {MOST_NAMES} stages and counts")
        place, held = open_lines.get(line.phase, (0, together))
        if held < together:
            lines[place] = _joined(lines[place], line)
            open_lines[line.phase] = (place, held + 1)
        else:
            open_lines[line.phase] = (len(lines), 1)
            lines.append(line)
        if len(lines) >= MOST_LINES or len(lines) * len(names) >= MOST_VALUES:
            lines, together, open_lines = _halved(lines), 2 * together, {}
    return lines


def _whole_lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while text := file.readline(MOST_LINE):
                if not text.endswith(b"\n"):  # cut off by a kill
                    if len(text) >= MOST_LINE:
                        raise RecordError(f"{path} is damaged: a line of more than {MOST_LINE:,} bytes")
                    return
                yield text
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error


def _halved(lines: list[Recorded]) -> list[Recorded]:
    """Lines of the same phase joined, two by two, each at the place of its first."""
    halved: list[Recorded] = []
    single: dict[str, int] = {}  # phase -> where a line of it lies that may take another
    for line in lines:
        if (place := single.pop(line.phase, None)) is not None:
            halved[place] = _joined(halved[place], line)
        else:
            single[line.phase] = len(halved)
            halved.append(line)
    return halved


def _joined(a: Recorded, b: Recorded) -> Recorded:
    first, second = a.sample, b.sample
    sample = Sample(
        start=first.start,
        wall=first.wall + second.wall,
        exclusive=_sum(first.exclusive, second.exclusive),
        inclusive=_sum(first.inclusive, second.inclusive),
        calls=_sum(first.calls, second.calls),
        counts=_sum(first.counts, second.counts),
        gpu=_sum(first.gpu, second.gpu),
        threads=first.threads or second.threads,
        events=first.events or second.events,
    )
    for name in _AVERAGED:
        if name in first.counts and name in second.counts:
            sample.counts[name] = (first.counts[name] + second.counts[name]) / 2
    return Recorded(a.phase, sample, max(a.rss, b.rss), max(a.gpu_memory, b.gpu_memory))


def _sum(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    return {name: a.get(name, 0) + b.get(name, 0) for name in {**a, **b}}


def decode(text: bytes, where: str) -> Recorded:
    document = loads(text, where)

    def demand(fine: bool, what: str) -> None:
        if not fine:
            raise RecordError(f"{where} is damaged: {what}")

    demand(isinstance(document, dict), "not a JSON object")
    for name, kind in _LINE.items():
        demand(type(document.get(name)) is kind, f"field {name!r} is missing or no {kind.__name__}")
    start, wall, rss, gpu_memory = (document.get(name, 0) for name in ("start", "wall", "rss", "gpu_memory"))
    demand(document["phase"] in PHASES, f"unknown phase {document['phase']!r}")
    demand(_whole([start, wall, rss, gpu_memory]), "'start', 'wall' and memory must be whole numbers")
    demand(wall > 0 and min(start, rss, gpu_memory) >= 0, "'wall' and 'start' must be positive")
    stages, counts = document["stages"], document["counts"]
    for path, times in stages.items():
        demand(_whole(times, 3), f"stage {path!r} must be three whole numbers")
        demand(0 < len(path) <= 200 and path.count("/") < DEEPEST_PATH, "a stage's name is too long")
    demand(all(_is_number(value) for value in counts.values()), "'counts' must be numbers")
    gpu, threads, events = (document.get(name, empty) for name, empty in (("gpu", {}), ("threads", {}), ("events", [])))
    demand(isinstance(gpu, dict) and _whole(list(gpu.values())), "'gpu' must be whole numbers by stage")
    demand(
        isinstance(threads, dict) and all(isinstance(t, dict) and _whole(list(t.values())) for t in threads.values()),
        "'threads' must be whole numbers by stage by thread",
    )
    demand(
        isinstance(events, list)
        and all(isinstance(e, list) and len(e) == 3 and isinstance(e[0], str) and _whole(e[1:]) for e in events),
        "'events' must be triples of a stage and two whole numbers",
    )
    sample = Sample(
        start=start,
        wall=wall,
        exclusive={path: times[0] for path, times in stages.items()},
        inclusive={path: times[1] for path, times in stages.items()},
        calls={path: times[2] for path, times in stages.items()},
        counts=counts,
        gpu=gpu,
        threads=threads,
        events=[(path, begin, duration) for path, begin, duration in events],
    )
    return Recorded(document["phase"], sample, rss, gpu_memory)


def _whole(values: Any, length: int | None = None) -> bool:
    """Whether this is a list (of that length) of whole numbers of 64 bits."""
    right = isinstance(values, list) and all(type(value) is int and abs(value) < MOST_DIGITS for value in values)
    return right and (length is None or len(values) == length)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < MOST_DIGITS
