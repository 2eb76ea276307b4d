"""Profile a system: warm up, trace, alternate measured and bare iterations, then the extra passes that were asked for.

Bare iterations run with the clock and the sampler off. What they say about the cost of measuring is noisy on a busy machine,
so the cost is also counted directly: stages entered times the cost of one, plus the sampler's own CPU time. Passes that
disturb (module hooks, cProfile) run after the measurement, never during it.
"""

import cProfile
import itertools
import pstats
import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hotlap.core import machine, stages, stats
from hotlap.core.clock import StageClock, stage_cost
from hotlap.core.counts import ENV_STEPS, EPISODES
from hotlap.core.sample import Sample
from hotlap.envs.layout import draw_legal
from hotlap.launch.options import ProfileOptions
from hotlap.probe.describe import describe, gemm_rate
from hotlap.probe.gpu import GpuTrace
from hotlap.probe.sampler import Sampler, shorten
from hotlap.record.header import FunctionTime, ModuleTime, Setup, Status, Verb
from hotlap.record.lines import BARE, MEASURED, TRACED, WARMUP, Recorded
from hotlap.record.machine import this_machine
from hotlap.record.observed import GpuActivity, Observed, Usage
from hotlap.record.run import Run
from hotlap.train.loop import TRACED as TRACED_ITERATIONS
from hotlap.train.loop import recording, stop_requests, write_samples
from hotlap.train.system import RLSystem

EXTRA_ITERATIONS = 2  # iterations of each disturbing pass
WATCHED_ITERATIONS = 10  # by torch's profiler, on a GPU
GPU_EVENTS_EVERY = 3  # pairs between iterations that record CUDA events; no host time is taken from those
FUNCTIONS = 50
ENV_WINDOW = 0.1  # seconds of bare environment steps in an iteration


OnProgress = Callable[[str, int, int], None]  # (what is going on, done, of how many)


@dataclass(frozen=True)
class Work:
    """What is measured: `iterate` runs one iteration, `ready` says whether start-up is over, `networks` what to open."""

    iterate: Callable[[], Any]
    ready: Callable[[], bool]
    networks: Callable[[], dict[str, Any]]
    graphs: Callable[[], str] = str  # what CUDA graphs hold
    without_graphs: Callable[[], AbstractContextManager[None]] = nullcontext


def profile(
    system: RLSystem, config: Any, options: ProfileOptions, out: Path | None = None, on_progress: OnProgress = lambda *_: None
) -> Run:
    """Measure a system's training, or its bare environments. Ctrl-C keeps what was measured."""
    clock = StageClock.for_device(config.device, options.ranges)
    with closing(system.make_env(config)) as env:
        work = work_of(system, config, env, clock, options.env_only)
        run = Run.create(
            Verb.PROFILE,
            system.name,
            asdict(config),
            this_machine(),
            out,
            setup=Setup(
                gpu_timing=clock.policy,
                stage_cost=stage_cost(),
                targets=options.targets,
                env_only=options.env_only,
                layout=str(env.layout),
            ),
        )
        watch = machine.GpuWatch(config.device)
        with recording(run), stop_requests() as stop, watch, closing(Sampler(lambda *_: clock.open_path())) as sampler:
            _warm_up(run, clock, work, options, on_progress, stop.is_set)
            _measure(run, clock, work, sampler, options, on_progress, stop.is_set)
            gpu = None if stop.is_set() else _watch_gpu(clock, work)
            run.update(setup=replace(run.header.setup, gpu_timing=clock.policy, graphs=work.graphs() or None))
            observed = Observed(
                usage=Usage(machine.peak_rss(), gpu.busy if gpu else watch.busy_share, gpu),
                description=replace(describe(), gemm_rate=gemm_rate()),
                hot_lines=sampler.hottest(),
                sampler_seconds=sampler.seconds,
            )
            run.update(observed=observed)
            clock.enabled = False
            if options.modules and not stop.is_set():
                on_progress("timing modules", 0, 0)
                run.update(passes=replace(run.header.passes, modules=_time_modules(work)))
            if options.detailed and not stop.is_set():
                on_progress("running cProfile", 0, 0)
                functions = _profile_functions(work, run.path / "profile.pstats")
                run.update(passes=replace(run.header.passes, functions=functions))
            run.finish(Status.INTERRUPTED if stop.is_set() else Status.DONE)
    return run


def work_of(system: RLSystem, config: Any, env: Any, clock: StageClock, env_only: bool) -> Work:
    """A system's training, or its bare environments. Python environments of this process say when they are reset."""
    env.engine.around_reset = partial(clock.stage, stages.ENV_RESET)
    return (_bare_env if env_only else _training)(system, config, env, clock)


def _training(system: RLSystem, config: Any, env: Any, clock: StageClock) -> Work:
    state = system.start(config, env)
    return Work(
        iterate=lambda: system.trainer.iterate(state, config, env, clock),
        ready=lambda: bool(system.trainer.learning(state, config)),
        networks=lambda: dict(system.trainer.networks(state)),
        graphs=lambda: str(state.graphs or ""),
        without_graphs=lambda: state.graphs.off() if state.graphs else nullcontext(),
    )


def _bare_env(system: RLSystem, config: Any, env: Any, clock: StageClock) -> Work:
    """Random actions, drawn beforehand unless some are illegal, and no learning; an iteration repeats them until it lasts long
    enough to time."""
    env.action_space.seed(config.seed)
    random = np.random.default_rng(config.seed)
    actions = [env.action_space.sample() for _ in range(config.iteration_steps)]
    _, info = env.reset(seed=config.seed)
    masked = "action_mask" in info

    def legal(info: dict[str, Any]) -> Any:
        return env.to_host(info["action_mask"]) if env.on_device else info["action_mask"]

    def step_all() -> int:
        episodes: Any = 0  # a tensor, where the environments are on a GPU: it is not asked at every step
        nonlocal info
        for drawn in actions:
            action = draw_legal(env.single_action_space, legal(info), random) if masked else drawn
            info = env.step(action)[4]
            if "_final_info" in info:
                episodes = episodes + info["_final_info"].sum()
        return int(episodes)

    begin = time.perf_counter()
    step_all()
    rounds = max(1, round(ENV_WINDOW / (time.perf_counter() - begin)))

    def iterate() -> None:
        with clock.stage(stages.COLLECT), clock.stage(stages.ENV_STEP):
            episodes = sum(step_all() for _ in range(rounds))
        clock.count(ENV_STEPS, rounds * len(actions) * env.num_envs)
        clock.count(EPISODES, episodes)

    return Work(iterate, ready=lambda: True, networks=dict)


def _warm_up(
    run: Run, clock: StageClock, work: Work, options: ProfileOptions, on_progress: OnProgress, stopped: Callable[[], bool]
) -> None:
    """Until learning has begun, the iteration in which it began is over, and `warmup` more; then the traced ones."""
    left = options.warmup
    while not stopped():
        ready = work.ready()
        if ready and not left:
            break
        on_progress("warming up", options.warmup - left, options.warmup)
        with clock.iteration():
            work.iterate()
        write_samples(run, clock, WARMUP)
        left -= ready
    for _ in range(TRACED_ITERATIONS):
        if not stopped():
            _run_traced(run, clock, work, spans=True)


def _measure(
    run: Run,
    clock: StageClock,
    work: Work,
    sampler: Sampler,
    options: ProfileOptions,
    on_progress: OnProgress,
    stopped: Callable[[], bool],
) -> None:
    """Pairs of a measured and a bare iteration, in random order, until enough are left after late warm-up is dropped."""
    coin = random.Random(0)
    deadline = time.monotonic() + options.seconds if options.seconds else None
    most = 2 * options.iterations + 10
    for pairs in itertools.count():
        walls = [sample.wall for sample in run.phase(MEASURED)]
        steady = len(walls) - (stats.warmup_end(walls) if walls else 0)
        enough = steady >= options.iterations if deadline is None else steady and time.monotonic() > deadline
        if enough or stopped() or (deadline is None and pairs >= most):
            break
        on_progress("measuring", steady, options.iterations if deadline is None else 0)
        for bare in coin.sample([False, True], 2):
            if bare:
                _run_bare(run, clock, work)
            else:
                if not clock.replays_graphs:  # then the host only waits, whatever the line
                    sampler.resume()
                with clock.iteration(trace=clock.replays_graphs):
                    work.iterate()
                sampler.pause()
                sampler.keep()
                write_samples(run, clock, MEASURED)
        if clock.times_gpu and not clock.replays_graphs and pairs % GPU_EVENTS_EVERY == 0:
            _run_traced(run, clock, work, spans=False)


def _run_traced(run: Run, clock: StageClock, work: Work, spans: bool) -> None:
    with clock.iteration(trace=True):
        work.iterate()
    write_samples(run, clock, TRACED, spans)


def _run_bare(run: Run, clock: StageClock, work: Work) -> None:
    clock.enabled = False
    begin = time.perf_counter_ns()
    work.iterate()
    sample = Sample(start=0, wall=time.perf_counter_ns() - begin)
    clock.enabled = True
    run.append(Recorded(BARE, sample, machine.rss(), machine.gpu_memory()))


def _watch_gpu(clock: StageClock, work: Work) -> GpuActivity | None:
    """What the GPU does in some iterations; None without one."""
    trace = GpuTrace.begin(clock.origin) if clock.times_gpu else None
    if trace is None:
        return None
    work.iterate()  # the profiler is slow to begin
    clock.take()
    whole = Sample(start=time.perf_counter_ns() - clock.origin)
    for _ in range(WATCHED_ITERATIONS):
        with clock.iteration():
            work.iterate()
        for sample in clock.take():
            for name, count in sample.counts.items():
                whole.counts[name] = whole.counts.get(name, 0) + count
    whole.wall = time.perf_counter_ns() - clock.origin - whole.start
    trace.end(whole)
    return trace.activity


def _time_modules(work: Work) -> tuple[ModuleTime, ...]:
    networks = work.networks()
    if not networks:
        return ()
    from hotlap.train.modules import ModuleTimer

    timer = ModuleTimer(networks)
    with work.without_graphs(), timer.watch():
        for _ in range(EXTRA_ITERATIONS):
            work.iterate()
    return tuple(ModuleTime(**asdict(entry)) for entry in timer.results())


def _profile_functions(work: Work, path: Path) -> tuple[FunctionTime, ...]:
    """The functions with the most cumulative time, by cProfile; all of them go to a .pstats file."""
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(EXTRA_ITERATIONS):
        work.iterate()
    profiler.disable()
    profiler.dump_stats(path)
    entries = pstats.Stats(profiler).stats.items()  # type: ignore[attr-defined]
    top = sorted(entries, key=lambda item: -item[1][3])[:FUNCTIONS]
    return tuple(
        FunctionTime(f"{shorten(file)}:{line}" if line else "built-in", name, calls, exclusive, inclusive)
        for (file, line, name), (_, calls, exclusive, inclusive, _) in top
    )
