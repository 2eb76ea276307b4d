"""hotlap profile."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from hotlap.core import secrets, units
from hotlap.core.errors import UsageError
from hotlap.launch.messages import Pulse
from hotlap.launch.options import ProfileOptions
from hotlap.record.limits import Limit
from hotlap.record.run import Run
from hotlap.target.interpreter import with_interpreter
from hotlap.target.target import Script, Variant
from hotlap.verbs import flags
from hotlap.verbs.output import EXIT_CODES, Switch, bar, print_json, say


@dataclass(frozen=True)
class Profile:
    """Measure where the time of training goes, stage by stage.

    Example: hotlap profile snake --iterations 20 --breakdown

    Example: hotlap profile snake --target "iteration_time<5s" --target "memory<2GB" --json

    Example: hotlap profile train.py --seconds 30 -- --its --own flags
    """

    what: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TARGET")]
    """Which system (see `hotlap systems`), or a script such as train.py; -m MODULE for a module."""
    algo: str | None = None
    """With what to train it, ppo or dqn: the first that `hotlap systems` lists if not given; of Gymnasium, ppo."""
    preset: str | None = None
    """A recipe of the system's, such as `seed`: as the original report had it; the first that is listed if not given."""
    iterations: int = 10
    """Iterations to measure after warm-up; as many bare ones run between them."""
    seconds: float | None = None
    """Measure for this long instead of a number of iterations."""
    warmup: int = 2
    """Iterations to leave out once learning has begun; a later change of level is left out too."""
    breakdown: Switch = False
    """Open collect and update into the stages inside them."""
    modules: Switch = False
    """Time each nn.Module, forward and backward, in a separate pass."""
    detailed: Switch = False
    """Add a cProfile report: the top 50 functions, and a .pstats file in the run's folder."""
    env_only: Switch = False
    """Time the bare environments with random actions, no learning."""
    target: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """A limit such as "iteration_time<5s" or "memory<2GB"; a missed one makes the exit code 1. May be repeated."""
    python: str | None = None
    """Which Python runs a script: a path. If not given, that of the active environment, or `python` on the PATH."""
    lines: bool = True
    """Sample which lines take the time; --no-lines turns that off, for the lowest overhead."""
    what_if: bool = True
    """Measure what changes would cost, on copies of a script's objects when it is stopped; takes up to 4 seconds."""
    ranges: Literal["nvtx"] | None = None
    """Also announce stages as NVTX ranges, for a run under Nsight."""
    out: Path | None = None
    """Folder for the record; a new one under .hotlap/runs if not given."""
    json: Switch = False
    """Print one JSON document."""


def _options(args: Profile) -> ProfileOptions:
    for text in args.target:
        Limit.parse(text)
    if args.iterations < 1 or args.warmup < 0 or (args.seconds is not None and args.seconds <= 0):
        raise UsageError("--iterations must be at least 1, --warmup at least 0, --seconds more than 0")
    if args.env_only and (args.modules or args.detailed):
        raise UsageError("--env-only runs no network: leave out --modules and --detailed")
    return ProfileOptions(
        iterations=args.iterations,
        warmup=args.warmup,
        seconds=args.seconds,
        env_only=args.env_only,
        modules=args.modules,
        detailed=args.detailed,
        targets=tuple(args.target),
        ranges=args.ranges,
        sampler=args.lines,
        what_if=ProfileOptions.what_if if args.what_if else 0.0,
    )


def profile(args: Any) -> int:
    """Profile a system. The fields of its config are flags too: `args.config`."""
    from hotlap.launch.system import profile as run_profile
    from hotlap.systems import configs

    if args.python is not None:
        raise UsageError(f"--python: only for scripts; {args.what} is a system, which runs in hotlap's own Python")
    options = _options(args)
    with bar() as progress:
        task = progress.add_task(f"profile {args.what}", total=None)

        def on_progress(what: str, done: int, total: int) -> None:
            progress.update(task, description=f"profile {args.what}: {what}", completed=done, total=total or None)

        system, config = configs.system(args.what, args.algo), configs.checked(args.config)
        run = run_profile(system, config, options, out=args.out, on_progress=on_progress)
    missed = _show_profile(run, args)
    return EXIT_CODES.get(run.header.status, missed)


def profile_script(argv: list[str]) -> int:
    """Profile a script, in place: the user starts it as it would run without hotlap."""
    from hotlap.launch.profile import profile_script as run_script

    place = argv.index("--") if "--" in argv else len(argv)
    ours, script_arguments = argv[:place], argv[place + 1 :]
    module = ours[0] == "-m"
    args = flags.parse(Profile, "profile", ours[1:] if module else ours)
    unused = [f"--{name.replace('_', '-')}" for name in ("modules", "detailed", "env_only", "ranges") if getattr(args, name)]
    if unused:
        raise UsageError(f"{', '.join(unused)}: only for systems, not for scripts")
    script, options = Script(args.what, module, tuple(script_arguments)), _options(args)
    variant = with_interpreter(Variant(script.name, script), args.python)
    progress = _ScriptProgress(script.name, options)
    run, code = run_script(variant, options, args.out, quiet=args.json, on_progress=progress.tell)
    command = shlex.join([*(["-m"] if module else []), args.what, *script_arguments])
    missed = _show_profile(run, args, secrets.masked_command(command))
    return code or missed


class _ScriptProgress:
    """Lines on stderr, few and whole: the script writes to the same terminal, and may draw bars of its own there."""

    EVERY = 10.0  # seconds

    def __init__(self, name: str, options: ProfileOptions) -> None:
        self._name, self._options = name, options
        self._is_running = self._is_training = False
        self._due = self.EVERY

    def tell(self, pulse: Pulse, seconds: float) -> None:
        if not self._is_running:
            self._is_running = True
            wanted = f"{self._options.seconds:g} s" if self._options.seconds else f"{self._options.iterations} windows"
            say(f"hotlap: running {self._name}; {wanted} are measured once training begins")
        if pulse.is_training and not self._is_training:
            self._is_training, self._due = True, seconds + self.EVERY
            say("hotlap: training has begun")
        elif seconds >= self._due:
            self._due = seconds + self.EVERY
            say(f"hotlap: {self._state(pulse, seconds)}")

    def _state(self, pulse: Pulse, seconds: float) -> str:
        if not self._is_training:
            patience = f"; waits up to {self._options.patience:.0f} s" if self._options.seconds else ""
            return f"{seconds:.0f} s, no training seen yet{patience}"
        if self._options.seconds:
            left = max(0.0, self._options.seconds - (pulse.seconds or seconds))
            return f"{pulse.windows} windows in {seconds:.0f} s, about {left:.0f} s left"
        done, wanted = pulse.windows, self._options.iterations
        left = seconds / done * max(0, wanted - done) if done else 0.0
        return f"measured {done} of {wanted} windows" + (f", about {units.seconds(left)} left" if left else ", warming up")


def _show_profile(run: Run, args: Profile, command: str | None = None) -> int:
    """Print a profile, and for a script how to go on; 1 if it missed a target."""
    from hotlap.record.summary import profile_of
    from hotlap.report.commands import hotlap, on_target
    from hotlap.report.show import show_run

    measured = profile_of(run)
    if args.json:
        print_json(measured)
    else:
        show_run(run, args.breakdown)
        interpreter = ["--python", str(args.python)] if args.python else []
        proof = on_target("investigate", command, interpreter) if command else None
        print(*([f"\nproof by experiment: {proof}"] if proof else []), sep="")
        print(f"as a page: {hotlap('report', str(run.path), '--format', 'html')}")
    return 0 if all(limit.passed for limit in measured.targets) else 1
