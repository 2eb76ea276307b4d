"""hotlap compare."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from hotlap.core.errors import UsageError
from hotlap.record import codec
from hotlap.record.header import Interleaved, Verb
from hotlap.record.networks import NetComparison
from hotlap.target import words
from hotlap.target.target import System, Variant
from hotlap.verbs.interleaved import Knobs, ScratchChoice, run_variants, show
from hotlap.verbs.output import Switch


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
    """Stop as soon as the 95% interval is within this of the ratio, on both sides."""
    blocks: Annotated[int, tyro.conf.arg(aliases=["--turns"])] = 6
    """Blocks of each variant in a round of fresh processes."""
    block: str = "0.5s"
    """A block lasts at least this long, and at least one iteration."""
    warmup: int = 2
    """Iterations (of a script, windows) to leave out in each process, once learning has begun."""
    control: bool = True
    """Also measure A against itself, to see the noise of this machine."""
    env_only: Switch = False
    """Compare the bare environments of a system, with random actions."""
    anyway: Switch = False
    """Compare saved runs even if they come from different machines."""
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


def compare(args: Compare) -> int:
    from hotlap.experiment.compare import report_of

    if not args.vary and len(args.what) == 2 and not any(words.is_target(text) for text in args.what):
        return _compare_saved(args)
    variants = _variants(args)
    nets = _nets(variants, args.vary)
    about = Interleaved(nets=codec.to_json(nets) if nets else None)
    return show(report_of(run_variants(Verb.COMPARE, variants, args, args.control, about)), args.json)


def _compare_saved(args: Compare) -> int:
    from hotlap.experiment import gate

    base, new = (gate.read_saved(text) for text in args.what)
    return show(gate.compare_saved(base, new, (args.what[0], args.what[1]), args.anyway), args.json, page=False)


def _variants(args: Compare) -> list[Variant]:
    if args.vary:
        if len(args.what) != 1:
            raise UsageError("with --vary, name one target: hotlap compare snake --vary turbo=off,on")
        return words.vary(args.what[0], args.vary, args.env_only)
    if len(args.what) != 2:
        raise UsageError("name two targets to compare, each in quotes, or one with --vary knob=value,value")
    if not all(words.is_target(text) for text in args.what):
        raise UsageError("compare two targets, which are run interleaved, or two saved runs; not one of each")
    a, b = (words.variant(text, env_only=args.env_only) for text in args.what)
    return [replace(a, name=f"{a.name} (A)"), replace(b, name=f"{b.name} (B)")] if a.name == b.name else [a, b]


def _nets(variants: Sequence[Variant], knobs: Sequence[str]) -> NetComparison | None:
    """If the network is what differs: the networks by themselves, before the interleaved runs."""
    differ = any(words.parse_knob(knob)[0] in ("net", "hidden", "dueling") for knob in knobs)
    targets = [variant.target for variant in variants]
    if not differ or not isinstance(targets[0], System):
        return None
    import torch

    from hotlap.experiment.networks import compare_nets, observations_at_random
    from hotlap.systems import configs

    system = configs.system(targets[0].name, targets[0].algorithm)
    nets, inputs, config = {}, {}, system.preset()
    for variant in variants:
        assert isinstance(variant.target, System)
        config = configs.config_from(system, variant.target.config)
        with closing(system.make_env(config, 1)) as env:
            spec = env.env_spec
            nets[variant.name] = system.trainer.make_net(config, spec, system.net_makers()).to(config.device)
        if spec.obs_size:  # what networks of sparse rows compute depends on the rows
            with closing(system.make_env(replace(config, workers=0), config.batch_size)) as env:
                inputs[variant.name] = observations_at_random(env).to(config.device)
    torch.set_num_threads(config.torch_threads)
    return compare_nets(nets, batch=config.batch_size, input_shape=spec.obs_shape, inputs=inputs)
