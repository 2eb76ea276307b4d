"""hotlap compare, hotlap sweep and hotlap gate."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from hotlap.core.errors import UsageError
from hotlap.record.run import Run, write_atomically
from hotlap.target import words as targets
from hotlap.verbs.output import Switch, bar, err, print_json

Knobs = tyro.conf.UseAppendAction[tuple[str, ...]]


@dataclass(frozen=True)
class Compare:
    """Tell whether B is faster than A, by how much, in which stage, and how sure that is.

    Example: hotlap compare snake --vary turbo=off,on

    Example: hotlap compare "train.py --num-envs 8" "train.py --num-envs 64" --budget 5m --precision 1%

    Example: hotlap compare RUN_A RUN_B
    """

    what: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="A B")]
    """Two targets with their settings, in quotes: a system, a script; or two saved runs. With --vary one target."""
    vary: Knobs = ()
    """A knob and its values: num_envs=8,64; turbo=off,on; OMP_NUM_THREADS=1,2. The first value is A. May be repeated."""
    budget: str = "2m"
    """Stop after about this long."""
    precision: str = "2%"
    """Stop as soon as the interval reaches no further than this to either side."""
    turns: int = 6
    """Turns of each side in a round of fresh processes."""
    block: str = "0.5s"
    """A turn lasts at least this long, and at least one iteration."""
    warmup: int = 2
    """Iterations (of a script, windows) to leave out in each process, once learning has begun."""
    control: bool = True
    """Also race A against itself, to see what the machine makes of no difference at all."""
    env_only: Switch = False
    """Compare the bare environments of a system, with random actions."""
    anyway: Switch = False
    """Compare saved runs of different machines all the same."""
    seed: int = 0
    """Of the order of turns; rounds of systems also train with seeds of their own."""
    out: Path | None = None
    """Folder for the record; a new one under .hotlap/runs if not given."""
    json: Switch = False
    """Print one JSON document."""


def compare(args: Compare) -> int:
    from hotlap.experiment import compare as comparing
    from hotlap.experiment import gate

    if args.vary:
        if len(args.what) != 1:
            raise UsageError("with --vary, name one target: hotlap compare snake --vary turbo=off,on")
        sides = targets.vary(args.what[0], args.vary, args.env_only)
    elif len(args.what) != 2:
        raise UsageError("name two things to compare, each in quotes, or one with --vary knob=value,value")
    elif all(targets.is_target(text) for text in args.what):
        sides = [targets.side(text, env_only=args.env_only) for text in args.what]
        if sides[0].name == sides[1].name:
            sides = [replace(side, name=f"{side.name} ({letter})") for side, letter in zip(sides, "AB", strict=True)]
    elif any(targets.is_target(text) for text in args.what):
        raise UsageError("compare two targets, which are run in turns, or two saved runs; not one of each")
    else:
        base, new = (gate.read_side(text) for text in args.what)
        return _show(gate.compare_saved(base, new, (args.what[0], args.what[1]), args.anyway), args.json)
    nets = _nets(sides, args.vary)
    run = _race("compare", sides, args, **({"nets": nets} if nets else {}))
    doc = comparing.document(run) | ({"nets": nets} if nets else {})
    return _show(doc, args.json)


def _nets(sides: Sequence[Any], knobs: Sequence[str]) -> dict[str, Any] | None:
    """If the network is what differs: the networks by themselves, before the race."""
    if not any(targets.parse_knob(knob)[0] in ("net", "hidden", "dueling") for knob in knobs) or not sides[0].system:
        return None
    import torch

    from hotlap import systems
    from hotlap.experiment.networks import compare_nets
    from hotlap.target import flags

    system = systems.load(sides[0].system, sides[0].algorithm)
    nets, config = {}, None
    for side in sides:
        config = flags.config_from(system, side.config)
        with closing(system.make_env(config, 1)) as env:
            nets[side.name] = system.trainer.make_net(config, env).to(config.device)
            shape = env.single_observation_space.shape
    torch.set_num_threads(config.torch_threads)  # type: ignore[union-attr]
    return compare_nets(nets, batch=config.batch_size, input_shape=shape).document()  # type: ignore[union-attr]


def _race(verb: str, sides: Sequence[Any], args: Any, **fields: Any) -> Run:
    from hotlap.core import units
    from hotlap.experiment.compare import Plan, run_race
    from hotlap.experiment.interleave import Options

    budget, block = units.parse(args.budget, "seconds"), units.parse(args.block, "seconds")
    precision = units.parse(args.precision, "share")
    if args.turns < 2 or args.warmup < 0 or min(budget, block, precision) <= 0:
        raise UsageError("--turns must be at least 2, --warmup at least 0, --budget, --block and --precision more than 0")
    options = Options(block, args.turns, args.warmup, round=budget / 10, seed=args.seed)
    plan = Plan(budget, precision, getattr(args, "control", False), options)
    with bar() as progress:
        task = progress.add_task(verb, total=budget)

        def report(what: str, spent: float, total: float) -> None:
            progress.update(task, description=f"{verb}: {what}", completed=min(spent, total))

        return run_race(verb, sides, plan, args.out, report, **fields)


def _show(doc: dict[str, Any], as_json: bool) -> int:
    if as_json:
        print_json(doc)
    else:
        from hotlap.report import comparison, terminal

        terminal.render(comparison.headline(doc), comparison.sections(doc), terminal.Output())
        if doc["plan"] is not None:
            print(f"\nas a page: hotlap report {doc['run']} --format html")
    return {"interrupted": 130, "failed": 1}.get(doc["status"], 0)


@dataclass(frozen=True)
class Sweep:
    """Measure throughput, memory and stages against a knob: where more stops paying, and why.

    Example: hotlap sweep snake --vary num_envs=1,8,64,256,1024

    Example: hotlap sweep train.py --vary num_envs=1,4,16 --budget 5m

    Example: hotlap sweep snake --preset seed --until episodes=1024,5000

    Example: hotlap sweep train.py --delay env_step
    """

    what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TARGET")]
    """A system or a script, in quotes if it has settings."""
    vary: Knobs = ()
    """A knob and its values. May be repeated: then every combination is measured."""
    until: str | None = None
    """Train a system from its start, and say when each count was reached: episodes=1024,5000 (or env_steps, updates)."""
    delay: str | None = None
    """Slow this stage of a script down by known amounts, and see how much of that the whole notices."""
    budget: str = "3m"
    """Stop after about this long, but not before one round is complete."""
    precision: str = "3%"
    """Stop as soon as every point's interval reaches no further than this to either side of its ratio to the first."""
    turns: int = 4
    """Turns of each point in a round of fresh processes."""
    block: str = "0.5s"
    """A turn lasts at least this long, and at least one iteration."""
    warmup: int = 2
    """Iterations (of a script, windows) to leave out in each process, once learning has begun."""
    env_only: Switch = False
    """Sweep the bare environments of a system, with random actions."""
    seed: int = 0
    """Of the order of turns; rounds of systems also train with seeds of their own."""
    out: Path | None = None
    """Folder for the record; a new one under .hotlap/runs if not given."""
    json: Switch = False
    """Print one JSON document."""


def sweep(args: Sweep) -> int:
    from hotlap.experiment import sweep as sweeping

    if sum(bool(way) for way in (args.vary, args.until, args.delay)) != 1:
        raise UsageError("sweep needs one of --vary knob=value,value, --until episodes=1024,5000 and --delay STAGE")
    if args.env_only and not args.vary:
        raise UsageError("--env-only goes with --vary")
    if args.until:
        return _sweep_until(args)
    if args.delay:
        return _sweep_delay(args)
    sides = targets.vary(args.what, args.vary, args.env_only)
    knobs = [targets.parse_knob(knob)[0] for knob in args.vary]
    return _show(sweeping.document(_race("sweep", sides, args, knobs=knobs)), args.json)


def _sweep_until(args: Sweep) -> int:
    from hotlap.core.counts import ENV_STEPS, EPISODES, UPDATES
    from hotlap.experiment import growth

    what, values = targets.parse_knob(args.until or "")
    if what not in (ENV_STEPS, EPISODES, UPDATES):
        raise UsageError(f"--until {args.until}: count {ENV_STEPS}, {EPISODES} or {UPDATES}")
    try:
        counts = sorted(float(value) for value in values)
    except ValueError:
        counts = [0.0]
    if not all(0 < count < float("inf") for count in counts):
        raise UsageError(f"--until {args.until}: the counts must be numbers above 0")
    side = targets.side(args.what)
    if not side.system:
        raise UsageError("--until trains a system from its start; for a script, profile it: its report says how time grows")
    with bar() as progress:
        task = progress.add_task(f"sweep {side.target}", total=counts[-1])
        run = growth.train_until(side, what, counts, args.out, lambda done: progress.update(task, completed=done))
    return _show(growth.document(run), args.json)


def _sweep_delay(args: Sweep) -> int:
    from hotlap.experiment import delay as causal

    side = targets.side(args.what)
    if side.system:
        raise UsageError("--delay slows a script's stage down; a system's stages do not overlap, so their shares say the same")
    sides, path = causal.sides(side, args.delay or "")
    doc = causal.document(_race("sweep", sides, args, knobs=["delay"], delay=path))
    return _show(doc, args.json)


@dataclass(frozen=True)
class Gate:
    """Fail if a run is slower than its baseline by more than is allowed, beyond doubt. For CI.

    Example: hotlap gate latest --baseline baseline.json --max-slowdown 5%

    Example: hotlap gate RUN1 RUN2 RUN3 --save baseline.json
    """

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Saved profiles of the new state; several tell more than one."""
    baseline: str | None = None
    """A saved run, or a baseline file."""
    max_slowdown: str = "5%"
    """What is allowed."""
    save: Path | None = None
    """Write these runs to a baseline file, small enough to live in git."""
    junit: Path | None = None
    """Also write the verdict as a JUnit file."""
    markdown: Path | None = None
    """Also write the comparison as Markdown."""
    anyway: Switch = False
    """Compare runs of different machines all the same."""
    json: Switch = False
    """Print one JSON document."""


def gate(args: Gate) -> int:
    from hotlap.core import units
    from hotlap.experiment import gate as gating
    from hotlap.report import comparison, markdown

    limit = units.parse(args.max_slowdown, "share")
    if limit < 0 or not (args.baseline or args.save):
        raise UsageError("gate needs --baseline RUN or FILE, or --save FILE to make one; --max-slowdown must not be negative")
    if not args.runs:
        raise UsageError("gate needs the run to judge: hotlap gate latest --baseline baseline.json")
    new = [series for run in args.runs for series in gating.read_side(run)]
    if not args.baseline:
        return _save_baseline(args, new)
    doc = gating.compare_saved(gating.read_side(args.baseline), new, (args.baseline, " ".join(args.runs)), args.anyway)
    verdict = gating.judge(doc, limit)
    doc |= {"schema": "hotlap.gate/1", "verb": "gate", **verdict}
    low, high = verdict["slowdown_ci95"]
    said = f"{verdict['gate']}: {verdict['slowdown']:+.1%} time ({low:+.1%} to {high:+.1%}), allowed {limit:+.1%}"
    sections = comparison.sections(doc)
    title = f"gate {doc['target']} · {said}"
    if args.junit:
        write_atomically(args.junit, gating.junit(doc, verdict))
    if args.markdown:
        write_atomically(args.markdown, markdown.render(title, sections))
    if args.json:
        print_json(doc)
    else:
        from hotlap.report import terminal

        terminal.render(title, sections, terminal.Output())
    if args.save:
        _save_baseline(args, new, quiet=True)
    return 1 if verdict["gate"] == gating.FAIL else 0


def _save_baseline(args: Gate, runs: Sequence[dict[str, Any]], quiet: bool = False) -> int:
    from hotlap.experiment import gate as gating

    assert args.save is not None
    gating.write_baseline(args.save, runs)
    if args.json and not quiet:
        print_json({"schema": "hotlap.gate/1", "baseline": str(args.save), "runs": len(runs)})
    else:
        err.print(f"baseline of {len(runs)} run{'s' if len(runs) > 1 else ''}: {args.save}", highlight=False, soft_wrap=True)
    return 0


def report_document(found: Run) -> dict[str, Any] | None:
    """The document of a saved comparison or sweep; None if the run is something else."""
    from hotlap.experiment import compare, growth, sweep
    from hotlap.experiment import delay as causal

    if found.header["verb"] == "compare":
        nets = {"nets": found.header["nets"]} if "nets" in found.header else {}
        return compare.document(found) | nets
    if found.header["verb"] != "sweep":
        return None
    if "until" in found.header:
        return growth.document(found)
    return causal.document(found) if "delay" in found.header else sweep.document(found)
