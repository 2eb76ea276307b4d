"""The record of a run: a folder with `run.json` and `samples.jsonl`, from which every table and plot can be rebuilt.

`run.json` says what ran, how and where; it is replaced as a whole, atomically. `samples.jsonl` gets one line per iteration,
written at once (`lines.py`). Reading is strict: a damaged record raises `RecordError` with the file and line, never a traceback
from deep inside. JSON only; nothing is unpickled.
"""

import json
import os
import secrets
import tempfile
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hotlap.core import processes
from hotlap.core.counts import UPDATES
from hotlap.core.errors import RecordError
from hotlap.core.sample import Sample
from hotlap.core.text import shell_safe
from hotlap.record import codec, lines
from hotlap.record.files import EPISODES
from hotlap.record.header import READABLE, SCHEMA, Header, Process, Status, Verb
from hotlap.record.lines import Recorded, append_line, read_lines
from hotlap.record.machine import Machine
from hotlap.record.upgrade import upgraded

RUNS = Path(".hotlap") / "runs"
LATEST = "latest"
MEASURED = (Verb.PROFILE, Verb.TRAIN)  # the runs that hold one target's samples


@dataclass(frozen=True)
class Identity:
    """What every document of a run begins with."""

    run: str
    verb: Verb
    target: str
    status: Status
    error: str | None
    created: str
    machine: Machine


@dataclass
class Run:
    """A run on disk. Made by `create`, `reopen` or `load`."""

    path: Path
    header: Header
    lines: list[Recorded] = field(default_factory=list)
    workers: dict[str, list[Recorded]] = field(default_factory=dict)  # process -> its windows

    @classmethod
    def create(
        cls, verb: Verb, target: str, config: dict[str, Any], machine: Machine, out: Path | None = None, **sections: Any
    ) -> "Run":
        """Start a record in `out`, or in a new folder under `.hotlap/runs`. `sections` are fields of the header."""
        created = datetime.now(UTC)
        path = out or RUNS / f"{created:%Y%m%d-%H%M%S}-{shell_safe(target)}-{secrets.token_hex(2)}"
        header = Header(
            id=path.name,
            verb=verb,
            target=target,
            status=Status.RUNNING,
            created=created.isoformat(timespec="seconds"),
            process=this_process(),
            config=config,
            machine=machine,
            **sections,
        )
        run = cls(path, header)
        try:
            path.mkdir(parents=True, exist_ok=True)
            if (path / "run.json").exists():
                raise RecordError(f"{path} already holds a run; choose another --out")
            (path / "samples.jsonl").touch()
        except OSError as error:
            raise RecordError(f"cannot create the run folder {path}: {error.strerror}") from error
        run._save()
        return run

    @classmethod
    def reopen(cls, path: Path, keep: int, **changes: Any) -> "Run":
        """Go on with an earlier training run after its first `keep` samples; what it said about its end no longer holds."""
        run = load(path)
        run.refuse_if_running()
        run.lines = run.lines[:keep]
        with (path / "samples.jsonl").open("rb") as file:
            kept = b"".join(line for _, line in zip(range(keep), file, strict=False))
        write_atomically(path / "samples.jsonl", kept)
        (path / EPISODES).unlink(missing_ok=True)
        earlier = {"samples": len(run.lines), "machine": codec.to_json(run.header.machine)}
        training = replace(
            run.header.training, evaluation=None, evaluation_seconds=None, resumed=(*run.header.training.resumed, earlier)
        )
        run.restart(finished=None, observed=replace(run.header.observed, usage=None), training=training, **changes)
        return run

    def restart(self, **changes: Any) -> None:
        """This process continues the run."""
        self.update(status=Status.RUNNING, error=None, process=this_process(), **changes)

    def refuse_if_running(self) -> None:
        if self.is_running:
            raise RecordError(f"{self.path} is still being written by process {self.header.process.pid}")

    @property
    def elapsed(self) -> int:
        """Nanoseconds from the start of the run to the end of its last sample."""
        return max((line.sample.start + line.sample.wall for line in self.lines), default=0)

    def append(self, line: Recorded) -> None:
        """Add a sample, on disk at once."""
        self.lines.append(line)
        try:
            append_line(self.path / "samples.jsonl", line)
        except OSError as error:
            raise RecordError(f"cannot write to {self.path}: {error.strerror}; samples before this one are kept") from error

    def update(self, **changes: Any) -> None:
        """Change fields of the header, on disk at once."""
        self.header = replace(self.header, **changes)
        self._save()

    def finish(self, status: Status = Status.DONE, **changes: Any) -> None:
        self.update(status=status, finished=datetime.now(UTC).isoformat(timespec="seconds"), **changes)

    @property
    def is_running(self) -> bool:
        """Whether the process that writes this run is alive."""
        process = self.header.process
        return self.header.status is Status.RUNNING and processes.is_alive(process.pid, process.started)

    @property
    def status(self) -> Status:
        """How the run ended: a record that says "running" although its process is gone was killed."""
        killed = self.header.status is Status.RUNNING and not self.is_running
        return Status.KILLED if killed else self.header.status

    def phase(self, *names: str) -> list[Sample]:
        """Samples of the given phases."""
        return [line.sample for line in self.lines if line.phase in names]

    @property
    def identity(self) -> Identity:
        header = self.header
        return Identity(str(self.path), header.verb, header.target, self.status, header.error, header.created, header.machine)

    @property
    def is_cut_short(self) -> bool:
        """Whether a profile ended before an iteration after warm-up was over."""
        return self.header.verb is Verb.PROFILE and not self.phase(lines.MEASURED)

    def steady(self) -> tuple[int, list[Sample]]:
        """How many samples are warm-up, and the rest: the samples that numbers are taken from.

        Before the change point that ends warm-up, and in training before learning has begun, nothing counts.
        """
        from hotlap.core.warmup import warmup_end

        training = self.header.verb is Verb.TRAIN
        if self.is_cut_short:
            seen = self.phase(lines.WARMUP, lines.TRACED)
            learning = [i for i, sample in enumerate(seen) if sample.counts.get(UPDATES)]
            return (learning[0], seen[learning[0] :]) if learning else (0, seen)
        samples = self.phase(lines.TRAIN, lines.TRACED) if training else self.phase(lines.MEASURED)
        begun = 0
        if training:
            learning = [i for i, sample in enumerate(samples) if sample.counts.get(UPDATES)]
            begun = learning[0] + 1 if learning else 0
        rest = samples[begun:]
        late = warmup_end([sample.wall for sample in rest]) if rest else 0
        return len(self.phase(lines.WARMUP)) + begun + late, rest[late:]

    def without_bare(self) -> list[Recorded]:
        """The lines in which something was measured."""
        return [line for line in self.lines if line.phase != lines.BARE]

    def _save(self) -> None:
        text = json.dumps(codec.to_json(replace(self.header, schema=SCHEMA)), indent=2)
        write_atomically(self.path / "run.json", text + "\n")


def this_process() -> Process:
    return Process(os.getpid(), processes.started(os.getpid()) or 0.0)


def load(path: str | Path, kinds: Collection[Verb] = ()) -> Run:
    """Read a record. `path` is a run folder, a run's id, or "latest": of these kinds, if any are named."""
    folder = find(path, kinds)
    header = _read_header(folder / "run.json")
    workers = {file.stem: read_lines(file) for file in sorted((folder / "workers").glob("*.jsonl"))[:MOST_WORKERS]}
    return Run(folder, header, read_lines(folder / "samples.jsonl"), workers)


MOST_WORKERS = 4_096  # files of worker processes that are read


def find(path: str | Path, kinds: Collection[Verb] = ()) -> Path:
    """The folder of a run given by path, id or "latest": the newest of these kinds, or of all."""
    if (folder := Path(path)).is_dir():
        return folder
    if (folder := RUNS / path).is_dir():
        return folder
    runs = sorted(RUNS.glob("*/run.json"), key=lambda file: file.stat().st_mtime)
    if str(path) == LATEST and runs:
        newest = next((file for file in reversed(runs) if not kinds or _kind(file) in kinds), None)
        if newest is None:
            raise RecordError(f"no {' or '.join(kinds)} run in .hotlap/runs here; the latest run is {runs[-1].parent.name}")
        return newest.parent
    hint = f"; the latest run here is {runs[-1].parent.name}" if runs else "; there are no runs in .hotlap/runs here"
    raise RecordError(f"no run {str(path)!r}{hint}")


def _kind(path: Path) -> Verb | None:
    """The verb of a record; None if it is damaged."""
    try:
        return _read_header(path).verb
    except RecordError:
        return None


def write_atomically(path: Path, data: str | bytes) -> None:
    """Replace a file as a whole: readers see the old one or the new one, never a part."""
    binary = data.encode() if isinstance(data, str) else data
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(binary)
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise RecordError(f"cannot write {path}: {error.strerror}") from error


def _read_header(path: Path) -> Header:
    document = codec.read(path)
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema not in READABLE:
        raise RecordError(f"{path} has schema {str(schema)[:80]!r}; this version of hotlap reads {' and '.join(READABLE)}")
    header = codec.from_json(Header, upgraded(document, path), path)
    if header.status is Status.KILLED:
        raise RecordError(f"{path} is damaged: unknown status 'killed'")
    return header
