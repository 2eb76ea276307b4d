"""Flags: a verb's own, and beside them those of the system's config."""

import dataclasses
import inspect
import sys
from contextlib import redirect_stderr
from io import StringIO
from typing import Any

import tyro

from hotlap.core import native
from hotlap.core.errors import UsageError
from hotlap.record.run import load


def parse(kind: type, verb: str, argv: list[str]) -> Any:
    """The verb's flags. tyro draws its complaints as a box; we say the same in one line."""
    complaint = StringIO()
    try:
        with redirect_stderr(complaint):
            return tyro.cli(kind, prog=f"hotlap {verb}", args=argv, description=inspect.cleandoc(kind.__doc__ or ""))
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        lines = [line.strip("│ ") for line in complaint.getvalue().splitlines() if line.startswith("│")]
        said = " ".join(line for line in lines if line.strip("─ ") and not line.startswith("For full helptext"))
        said = said.partition(" Argument helptext:")[0]
        raise UsageError(f"{said or complaint.getvalue().strip()} (hotlap {verb} --help lists the flags)") from None


def with_config(kind: type, argv: list[str]) -> type:
    """The verb's flags and, beside them, those of the system's config: the preset's values are the defaults.

    The target and the preset (or the run to resume) decide which flags exist, so they are looked up before parsing.
    """
    from hotlap.systems import NAMES

    if not argv or argv[0].startswith("-"):
        named = next((argument for argument in argv if argument in NAMES), NAMES[0])
        if not {"-h", "--help"} & set(argv) and named not in argv:
            raise UsageError(f"name a target first: hotlap {kind.__name__.lower()} TARGET; targets: {', '.join(NAMES)}")
        target = named
    else:
        target = argv[0]
    preset, resume = value_of("--preset", argv), value_of("--resume", argv)
    if resume and (preset or value_of("--out", argv)):
        raise UsageError("--resume goes on in the run's own folder with its own config: leave out --preset and --out")
    found = system(target, value_of("--algo", argv) or (saved_algorithm(resume) if resume else None))
    if preset and preset not in found.presets and preset in ("fast", "seed"):
        raise UsageError(f"{target} has no preset {preset!r}: it has {', '.join(found.presets)}")
    config = _saved_config(found, resume) if resume else found.presets.get(preset or "fast", found.presets["fast"])
    saved = load(resume).header.get("options", {}) if resume else {}  # how often to evaluate and the like, as it was
    annotation = tyro.conf.OmitArgPrefixes[type(config)]  # type: ignore[misc,valid-type]
    field = ("config", annotation, dataclasses.field(default=config))
    kept = [(f.name, f.type, dataclasses.field(default=saved[f.name])) for f in dataclasses.fields(kind) if f.name in saved]
    combined = dataclasses.make_dataclass(kind.__name__, [*kept, field], bases=(kind,), frozen=True)
    combined.__doc__ = kind.__doc__
    return combined


def saved_algorithm(run: str) -> str | None:
    """How a run was trained, if it says."""
    found = load(run).header.get("algorithm")
    return str(found).lower() if found else None


def _saved_config(system: Any, resume: str) -> Any:
    saved = load(resume).header
    if saved["target"] != system.name or saved["verb"] != "train":
        raise UsageError(f"{resume} is a {saved['verb']} run of {saved['target']}, not a training run of {system.name}")
    if (algorithm := saved.get("algorithm")) and algorithm != system.algorithm:
        raise UsageError(f"{resume} was trained with {algorithm}: leave out --algo {system.algorithm.lower()}")
    kind = type(system.presets["fast"])
    unknown = sorted(set(saved["config"]) - {field.name for field in dataclasses.fields(kind)})
    if unknown:
        raise UsageError(f"{resume} was made by another version of hotlap: unknown config fields {', '.join(unknown)}")
    return config_from(system, saved["config"])


def config_from(system: Any, values: dict[str, Any]) -> Any:
    """A system's config from plain data, in which tuples are lists."""
    kind = type(system.presets["fast"])
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})


def is_script(argv: list[str]) -> bool:
    """Whether the target is a script or `-m module` rather than a system."""
    return bool(argv) and (argv[0] == "-m" or argv[0].endswith(".py"))


def protected(argv: list[str]) -> list[str]:
    """Words that look like flags and are values: `--vary --num-envs=1,2`, and targets such as "-m package.train --lr 1"."""
    found: list[str] = []
    for word in argv:
        if found and found[-1] == "--vary":
            found[-1] = f"--vary={word}"
        else:
            found.append(f" {word}" if word.startswith("-m ") else word)
    return found


def value_of(flag: str, argv: list[str]) -> str | None:
    for i, argument in enumerate(argv):
        if argument == flag and i + 1 < len(argv):
            return argv[i + 1]
        if argument.startswith(f"{flag}="):
            return argument.removeprefix(f"{flag}=")
    return None


def system(name: str, algorithm: str | None = None) -> Any:
    """A system, or a Gymnasium environment with an algorithm, by name."""
    from hotlap.systems import NAMES, is_known, load

    if not is_known(name):
        known = f"{', '.join(NAMES)}, a Gymnasium environment such as CartPole-v1 or my_module:MyEnv-v0"
        raise UsageError(f"unknown target {name!r}{nearest(name, NAMES)}; targets: {known}")
    found = load(name, algorithm)
    if algorithm and algorithm != found.algorithm.lower():
        raise UsageError(f"{name} is trained with {found.algorithm}: leave out --algo {algorithm}")
    return found


def nearest(name: str, known: Any) -> str:
    from difflib import get_close_matches

    found = get_close_matches(name, list(known), 1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def checked(config: Any) -> Any:
    """The config as this machine can run it: refused if its device cannot be used, without turbo if nothing can compile."""
    if config.turbo and native.compiler() is None:
        print(f"hotlap: {native.NO_COMPILER}; running the Python reference (--no-turbo)", file=sys.stderr)
        config = dataclasses.replace(config, turbo=False)
    if config.device != "cpu":
        import torch

        try:
            torch.zeros(1, device=config.device)
        except (RuntimeError, AssertionError) as error:
            raise UsageError(f"--device {config.device} cannot be used: {str(error).splitlines()[0]}") from None
    return config
