"""hotlap sweep."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from hotlap.core.counts import ENV_STEPS, EPISODES, UPDATES
from hotlap.core.errors import UsageError
from hotlap.record.header import Interleaved, Verb
from hotlap.target import words
from hotlap.target.target import System
from hotlap.verbs.interleaved import Knobs, ScratchChoice, run_variants, show
from hotlap.verbs.output import Switch, bar


@dataclass(frozen=True)
class Sweep:
    """Measure throughput, memory and stages against a knob: where more stops paying, and why.

    Example: hotlap sweep snake --vary num_envs=1,8,64,256,1024

    Example: hotlap sweep train.py --vary num_envs=1,4,16 --budget 5m

    Example: hotlap sweep "snake --preset seed" --until episodes=1024,5000

    Example: hotlap sweep train.py --delay env_step
    """

    what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TARGET")]
    """A system or a script, in quotes if it has settings."""
    vary: Knobs = ()
    """A knob and its values. May be repeated: then every combination is measured."""
    until: str | None = None
    """Train a system from its start, and say when each count was reached: episodes=1024,5000 (or env_steps, updates)."""
    delay: str | None = None
    """Slow this stage of a script down by known amounts, and see how much of that shows up in total time."""
    budget: str = "3m"
    """Stop after about this long, but not before one round is complete."""
    precision: str = "3%"
    """Stop as soon as every point's 95% interval is within this of its ratio to the first, on both sides."""
    blocks: Annotated[int, tyro.conf.arg(aliases=["--turns"])] = 4
    """Blocks of each point in a round of fresh processes."""
    block: str = "0.5s"
    """A block lasts at least this long, and at least one iteration."""
    warmup: int = 2
    """Iterations (of a script, windows) to leave out in each process, once learning has begun."""
    env_only: Switch = False
    """Sweep the bare environments of a system, with random actions."""
    python: str | None = None
    """Which Python runs a script: a path. If not given, that of the active environment, or `python` on the PATH."""
    scratch: ScratchChoice = "auto"
    """Where a script runs: an overlay of your folders, or a copy of the project. What it writes goes away with it."""
    in_place: Switch = False
    """Run a script in your own folder, where it overwrites what it writes."""
    rerun: Switch = False
    """The script may be run many times, whatever it does outside its files."""
    seed: int = 0
    """Seed of the order of blocks; every round of a system also trains with a seed of its own."""
    out: Path | None = None
    """Folder for the record; a new one under .hotlap/runs if not given."""
    json: Switch = False
    """Print one JSON document."""


def sweep(args: Sweep) -> int:
    from hotlap.experiment.sweep import report_of

    if sum(bool(way) for way in (args.vary, args.until, args.delay)) != 1:
        raise UsageError("sweep needs one of --vary knob=value,value, --until episodes=1024,5000 and --delay STAGE")
    if args.env_only and not args.vary:
        raise UsageError("--env-only needs --vary")
    if args.until:
        return _sweep_until(args, args.until)
    if args.delay:
        return _sweep_delay(args, args.delay)
    variants = words.vary(args.what, args.vary, args.env_only)
    about = Interleaved(knobs=tuple(words.parse_knob(knob)[0] for knob in args.vary))
    return show(report_of(run_variants(Verb.SWEEP, variants, args, about=about)), args.json)


def _sweep_until(args: Sweep, until: str) -> int:
    from hotlap.experiment import growth

    what, values = words.parse_knob(until)
    if what not in (ENV_STEPS, EPISODES, UPDATES):
        raise UsageError(f"--until {until}: count {ENV_STEPS}, {EPISODES} or {UPDATES}")
    try:
        counts = sorted(float(value) for value in values)
    except ValueError:
        counts = [0.0]
    if not all(0 < count < float("inf") for count in counts):
        raise UsageError(f"--until {until}: the counts must be numbers above 0")
    variant = words.variant(args.what)
    if not isinstance(variant.target, System):
        raise UsageError("--until trains a system from its start; for a script, profile it: its report says how time grows")
    with bar() as progress:
        task = progress.add_task(f"sweep {variant.name}", total=counts[-1])
        run = growth.train_until(variant, what, counts, args.out, lambda done: progress.update(task, completed=done))
    return show(growth.report_of(run), args.json)


def _sweep_delay(args: Sweep, stage: str) -> int:
    from hotlap.experiment import delay

    variant = words.variant(args.what)
    if isinstance(variant.target, System):
        raise UsageError("--delay slows a script's stage down; a system's stages do not overlap, so their shares say the same")
    variants, path = delay.variants(variant, stage)
    about = Interleaved(knobs=("delay",), delay=path)
    return show(delay.report_of(run_variants(Verb.SWEEP, variants, args, about=about)), args.json)
