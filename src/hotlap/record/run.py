"""The record of a run: a folder with `run.json` and `samples.jsonl`, from which every table and plot can be rebuilt.

`run.json` says what ran, how and where; it is replaced as a whole, atomically. `samples.jsonl` gets one line per iteration,
written at once, so a process killed in the middle loses at most the line it was writing. Reading is strict: a damaged
record raises `RecordError` with the file and line, never a traceback from deep inside. JSON only; nothing is unpickled.
"""

import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hotlap.core.counts import UPDATES
from hotlap.core.errors import RecordError
from hotlap.core.sample import Sample

SCHEMA = "hotlap.run/1"
RUNS = Path(".hotlap") / "runs"
# Files beside the two that every run has: which time the trace covers, what the sampler saw, what the GPU ran.
TRACED, STACKS, KERNELS = "traced.json", "stacks.json", "kernels.json"
STATUSES = ("running", "done", "interrupted", "failed")
PHASES = ("warmup", "measured", "bare", "traced", "train")

_HEADER: dict[str, type] = {
    "id": str,
    "verb": str,
    "target": str,
    "status": str,
    "created": str,
    "process": dict,
    "config": dict,
    "machine": dict,
}
_LINE = {"phase": str, "start": int, "wall": int, "rss": int, "stages": dict, "counts": dict}


@dataclass(frozen=True)
class Recorded:
    """One line of `samples.jsonl`: a sample, the phase it was taken in, and the memory in use at its end."""

    phase: str
    sample: Sample
    rss: int
    gpu_memory: int = 0


@dataclass
class Run:
    """A run on disk. Made by `create`, `reopen` or `load`."""

    path: Path
    header: dict[str, Any]
    lines: list[Recorded] = field(default_factory=list)
    workers: dict[str, list[Recorded]] = field(default_factory=dict)  # process -> its windows

    @classmethod
    def create(
        cls,
        verb: str,
        target: str,
        config: dict[str, Any],
        machine: dict[str, Any],
        out: Path | None = None,
        **fields: Any,
    ) -> "Run":
        """Start a record in `out`, or in a new folder under `.hotlap/runs`."""
        created = datetime.now(UTC)
        name = f"{created:%Y%m%d-%H%M%S}-{target.replace('/', '-')}-{secrets.token_hex(2)}"
        path = out or RUNS / name
        header = {
            "schema": SCHEMA,
            "id": path.name,
            "verb": verb,
            "target": target,
            "status": "running",
            "created": created.isoformat(timespec="seconds"),
            "process": this_process(),
            "config": config,
            "machine": machine,
            **fields,
        }
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
    def reopen(cls, path: Path, keep: int, **fields: Any) -> "Run":
        """Go on with an earlier run after its first `keep` samples; what it said about its end no longer holds."""
        run = load(path)
        if run.is_running:
            raise RecordError(f"{path} is still being written by process {run.header['process']['pid']}")
        run.lines = run.lines[:keep]
        write_atomically(path / "samples.jsonl", "".join(_encode(line) for line in run.lines))
        earlier = {"samples": len(run.lines), "machine": run.header["machine"]}
        for name in ("error", "evaluation", "evaluation_seconds", "finished", "usage"):
            run.header.pop(name, None)
        resumed = [*run.header.get("resumed", []), earlier]
        run.update(status="running", process=this_process(), resumed=resumed, **fields)
        return run

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

    def update(self, **fields: Any) -> None:
        """Change fields of `run.json`."""
        self.header.update(fields)
        self._save()

    def finish(self, status: str = "done", **fields: Any) -> None:
        self.update(status=status, finished=datetime.now(UTC).isoformat(timespec="seconds"), **fields)

    @property
    def is_running(self) -> bool:
        """Whether the process that writes this run is alive. A process number used again is another process."""
        if self.header["status"] != "running":
            return False
        import psutil

        process = self.header["process"]
        with suppress(psutil.Error, KeyError, TypeError, ValueError):
            found = psutil.Process(process["pid"])
            return found.status() != psutil.STATUS_ZOMBIE and abs(found.create_time() - process["started"]) < 1
        return False

    @property
    def was_killed(self) -> bool:
        """Whether the run says it is running but its process is gone."""
        return self.header["status"] == "running" and not self.is_running

    def phase(self, *names: str) -> list[Sample]:
        """Samples of the given phases."""
        return [line.sample for line in self.lines if line.phase in names]

    def facts(self) -> dict[str, Any]:
        """What every document of a run begins with."""
        return {
            "run": str(self.path),
            "verb": self.header["verb"],
            "target": self.header["target"],
            "status": "killed" if self.was_killed else self.header["status"],
            "error": self.header.get("error"),
            "created": self.header["created"],
            "machine": self.header["machine"],
        }

    def steady(self) -> tuple[int, list[Sample]]:
        """How many samples are warm-up, and the rest: the samples that numbers are taken from.

        Before the change point that ends warm-up, and in training before learning has begun, nothing counts.
        """
        from hotlap.core import stats

        training = self.header["verb"] == "train"
        samples = self.phase("train", "traced") if training else self.phase("measured")
        begun = 0
        if training:
            learning = [i for i, sample in enumerate(samples) if sample.counts.get(UPDATES)]
            begun = learning[0] + 1 if learning else 0
        rest = samples[begun:]
        late = stats.warmup_end([sample.wall for sample in rest]) if rest else 0
        return len(self.phase("warmup")) + begun + late, rest[late:]

    def show(self, breakdown: bool = True) -> None:
        """Print the report."""
        from hotlap.record.summary import document
        from hotlap.report import sections as content
        from hotlap.report import terminal

        doc = document(self if self.workers else load(self.path))
        terminal.render(content.headline(doc), content.sections(doc, breakdown), terminal.Output())

    def _save(self) -> None:
        text = json.dumps(self.header, indent=2, default=str)  # a strange value must not cost the record
        write_atomically(self.path / "run.json", text + "\n")


def append_line(path: Path, line: Recorded) -> None:
    """Add a line to a file of samples, whole or not at all as far as the system allows."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        data = _encode(line).encode()
        if os.write(descriptor, data) < len(data):
            raise OSError(28, "no space left on the device")
    finally:
        os.close(descriptor)


def this_process() -> dict[str, Any]:
    """Which process writes a run."""
    import psutil

    return {"pid": os.getpid(), "started": psutil.Process().create_time()}


def load(path: str | Path) -> Run:
    """Read a record. `path` is a run folder, a run's id, or "latest"."""
    folder = find(path)
    header = _read_header(folder / "run.json")
    workers = {file.stem: _read_lines(file) for file in sorted((folder / "workers").glob("*.jsonl"))}
    return Run(folder, header, _read_lines(folder / "samples.jsonl"), workers)


def _read_lines(path: Path) -> list[Recorded]:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error
    *whole, _unfinished = text.split(b"\n")  # a line without its newline was cut off by a kill
    return [_decode(line, f"{path} line {number}") for number, line in enumerate(whole, 1)]


def find(path: str | Path) -> Path:
    """The folder of a run given by path, id or "latest"."""
    if (folder := Path(path)).is_dir():
        return folder
    if (folder := RUNS / path).is_dir():
        return folder
    runs = sorted(RUNS.glob("*/run.json"), key=lambda file: file.stat().st_mtime)
    if str(path) == "latest" and runs:
        return runs[-1].parent
    hint = f"; the latest run here is {runs[-1].parent.name}" if runs else "; there are no runs in .hotlap/runs here"
    raise RecordError(f"no run {str(path)!r}{hint}")


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


@contextmanager
def strict_reading(path: str | Path) -> Iterator[None]:
    """Turn what goes wrong with a record's fields, missing or strange, into a clear error."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise RecordError(f"{Path(path) / 'run.json'} is damaged: {type(error).__name__} {error}") from error


def _read_header(path: Path) -> dict[str, Any]:
    try:
        header = json.loads(path.read_text())
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise RecordError(f"{path} is damaged: {error}") from error
    schema = header.get("schema") if isinstance(header, dict) else None
    if schema != SCHEMA:
        raise RecordError(f"{path} has schema {schema!r}; this version of hotlap reads {SCHEMA!r}")
    _check(header, _HEADER, str(path))
    if header["status"] not in STATUSES:
        raise RecordError(f"{path} is damaged: unknown status {header['status']!r}")
    return dict(header)


def _encode(line: Recorded) -> str:
    sample = line.sample
    document: dict[str, Any] = {
        "phase": line.phase,
        "start": sample.start,
        "wall": sample.wall,
        "rss": line.rss,
        "stages": {path: [sample.own[path], sample.total[path], sample.calls[path]] for path in sample.own},
        "counts": sample.counts,
    }
    optional = {
        "gpu": sample.gpu,
        "gpu_memory": line.gpu_memory,
        "threads": sample.threads,
        "events": sample.events,
    }
    document |= {key: value for key, value in optional.items() if value}
    return json.dumps(document, separators=(",", ":")) + "\n"


def _decode(text: bytes, where: str) -> Recorded:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise RecordError(f"{where} is damaged: {error}") from error
    _check(document, _LINE, where)

    def demand(fine: bool, what: str) -> None:
        if not fine:
            raise RecordError(f"{where} is damaged: {what}")

    demand(document["phase"] in PHASES, f"unknown phase {document['phase']!r}")
    demand(document["wall"] > 0 and document["start"] >= 0, "'wall' and 'start' must be positive")
    stages = document["stages"]
    for path, times in stages.items():
        demand(_whole(times, 3), f"stage {path!r} must be three whole numbers")
    gpu, threads, events = (document.get(name, empty) for name, empty in (("gpu", {}), ("threads", {}), ("events", [])))
    demand(all(isinstance(value, int | float) for value in document["counts"].values()), "'counts' must be numbers")
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
    gpu_memory = document.get("gpu_memory", 0)
    demand(isinstance(gpu_memory, int), "'gpu_memory' must be a whole number")
    sample = Sample(
        start=document["start"],
        wall=document["wall"],
        own={path: times[0] for path, times in stages.items()},
        total={path: times[1] for path, times in stages.items()},
        calls={path: times[2] for path, times in stages.items()},
        counts=document["counts"],
        gpu=gpu,
        threads=threads,
        events=[(path, start, duration) for path, start, duration in events],
    )
    return Recorded(document["phase"], sample, document["rss"], gpu_memory)


def _whole(values: Any, length: int | None = None) -> bool:
    """Whether this is a list (of that length) of whole numbers."""
    right = isinstance(values, list) and all(isinstance(value, int) for value in values)
    return right and (length is None or len(values) == length)


def _check(document: Any, fields: dict[str, type], where: str) -> None:
    if not isinstance(document, dict):
        raise RecordError(f"{where} is damaged: not a JSON object")
    for name, kind in fields.items():
        if not isinstance(document.get(name), kind):
            raise RecordError(f"{where} is damaged: field {name!r} is missing or no {kind.__name__}")
