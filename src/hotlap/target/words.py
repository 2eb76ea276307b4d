"""What people compare, from the words they say it in: "snake --num-envs 8", "train.py --lr 3e-4", "-m package.train"; and
knobs with their values: "num_envs=1,8,64", "turbo=off,on", "OMP_NUM_THREADS=1,2"."""

import contextlib
import dataclasses
import itertools
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hotlap.core import secrets
from hotlap.core.errors import UsageError
from hotlap.core.extras import demand_training
from hotlap.record.run import RUNS
from hotlap.target import parsing
from hotlap.target.target import Script, System, Variant

_LAYOUTS: dict[tuple[str, int, int], int] = {}  # workers, by target and number of environments
ON, OFF = ("on", "true", "yes"), ("off", "false", "no")


@dataclasses.dataclass(frozen=True)
class _System:
    """A system, in the words of the command line."""

    target: str
    preset: str | None = None
    algo: str | None = None


def is_target(text: str) -> bool:
    """Whether this names a system or a script, rather than a saved run."""
    from hotlap.systems import is_known

    words = _split(text)
    if not words or parsing.is_script(words):
        return bool(words)
    saved = len(words) == 1 and any((folder / "run.json").exists() for folder in (Path(words[0]), RUNS / words[0]))
    return not saved and not words[0].endswith(".json") and is_known(words[0])


def variant(text: str, name: str | None = None, extra: Sequence[str] = (), env_only: bool = False) -> Variant:
    """A target with its settings. `extra` settings come after its own."""
    words = [*_split(text), *extra]
    if parsing.is_script(words):
        module = words[0] == "-m"
        if module and len(words) < 2:
            raise UsageError("-m needs the name of a module")
        script, *arguments = words[1:] if module else words
        if not module and not Path(script).is_file():
            raise UsageError(f"no script {script!r}")
        if env_only:
            raise UsageError("--env-only: only for systems, not for scripts")
        target = Script(script, module, tuple(arguments))
        return Variant(name or secrets.masked_command(shlex.join([target.name, *arguments])), target)
    from hotlap.systems import configs

    demand_training(words[0])
    parsed = parsing.parse(parsing.with_config(_System, words), "compare", ["--target", *words])
    config = dataclasses.asdict(_settled(words[0], parsed.algo, configs.checked(parsed.config)))
    return Variant(name or text, System(words[0], parsed.algo, config, env_only))


def _settled(name: str, algorithm: str | None, config: Any) -> Any:
    """The config with as many workers as measure fastest, so that all variants and rounds have the same."""
    if config.workers >= 0 or config.turbo:
        return config
    key = (name, config.num_envs, getattr(config, "async_factor", 1))
    if key not in _LAYOUTS:
        from hotlap.systems import configs

        with contextlib.closing(configs.system(name, algorithm).make_env(config)) as env:
            _LAYOUTS[key] = env.layout.workers
    return dataclasses.replace(config, workers=_LAYOUTS[key])


def vary(text: str, knobs: Sequence[str], env_only: bool = False) -> list[Variant]:
    """A target with every combination of its knobs' values, named by them."""
    choices = [[(knob, value) for value in values] for knob, values in map(parse_knob, knobs)]
    variants = []
    for combination in itertools.product(*choices):
        name = ", ".join(_shown(knob, value, values) for (knob, value), values in zip(combination, choices, strict=True))
        variables = {knob: value for knob, value in combination if _is_variable(knob)}
        extra = [word for knob, value in combination if not _is_variable(knob) for word in _setting(text, knob, value)]
        variants.append(dataclasses.replace(variant(text, name, extra, env_only), environment=variables))
    if len({variant.name for variant in variants}) < len(variants):
        raise UsageError(f"--vary {' '.join(knobs)}: the same value twice")
    return variants


def _shown(knob: str, value: str, choices: Sequence[tuple[str, str]]) -> str:
    """A knob and its value as a record names them: the values of a secret are numbered instead of shown."""
    return f"{knob}={secrets.MASK}{choices.index((knob, value)) + 1}" if secrets.looks_secret(knob) else f"{knob}={value}"


def _is_variable(knob: str) -> bool:
    return knob.isupper() and not knob.startswith("-")


def parse_knob(text: str) -> tuple[str, list[str]]:
    """ "num_envs=1,8" -> its name and its values."""
    knob, equals, values = text.partition("=")
    choices = [value.strip() for value in values.split(",")]
    if not equals or not knob or not all(choices):
        raise UsageError(f"--vary {text!r} must look like num_envs=1,8,64 or turbo=off,on")
    return knob.strip(), choices


def _setting(text: str, knob: str, value: str) -> list[str]:
    """The words that set a knob: for systems by the type of the config's field, for scripts as a flag."""
    words = _split(text)
    flag = knob if knob.startswith("-") else f"--{knob.replace('_', '-')}"
    if parsing.is_script(words):
        return [] if value in OFF else [flag] if value in ON else [flag, value]
    fields = {f.name: getattr(_preset(words), f.name) for f in dataclasses.fields(_preset(words))}
    name = knob.strip("-").replace("-", "_")
    if name == "net" and value[0].isdigit():  # 64x64: the units of the layers, rather than a network by its name
        name = "hidden"
    if name == "preset":
        return ["--preset", value]
    if name not in fields:
        from hotlap.systems import configs

        raise UsageError(f"{words[0]} has no knob {knob!r}{configs.nearest(name, fields)}; knobs: {', '.join(fields)}")
    flag = f"--{name.replace('_', '-')}"
    if isinstance(fields[name], bool):
        if value not in (*ON, *OFF):
            raise UsageError(f"{knob} is on or off, not {value!r}")
        return [flag if value in ON else f"--no-{name.replace('_', '-')}"]
    if isinstance(fields[name], tuple):
        return [flag, *value.split("x")]
    return [flag, value]


def setting(text: str, knob: str, value: str) -> dict[str, Any]:
    """The fields of a system's config that a knob changes."""
    before, after = variant(text).target, variant(text, extra=_setting(text, knob, value)).target
    if not isinstance(before, System) or not isinstance(after, System):
        raise UsageError(f"{text} is a script: its knobs are flags")
    return {name: after.config[name] for name in after.config if after.config[name] != before.config[name]}


def claims(text: str) -> list[tuple[str, str]]:
    """Knobs and values that the document behind a system's preset recommends."""
    return [(knob, value) for claim in _recipe(_split(text)).claims for knob, values in [parse_knob(claim)] for value in values]


def _preset(words: list[str]) -> Any:
    return _recipe(words).config


def _recipe(words: list[str]) -> Any:
    from hotlap.systems import configs

    system = configs.system(words[0], parsing.value_of("--algo", words))
    return system.recipe(parsing.value_of("--preset", words))


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{text!r}: {error}") from None
