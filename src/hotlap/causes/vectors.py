"""How environments run: in one process or in several, and what passes between them."""

from hotlap.causes.cause import Cause, Saved, Suspicion
from hotlap.causes.evidence import Evidence
from hotlap.causes.remedy import Context, config, switch
from hotlap.causes.stacks import StackSample
from hotlap.core import stages, units
from hotlap.core.counts import ENV_STEPS, IPC_BYTES, IPC_RECEIVED, STEP_MEDIAN
from hotlap.core.paths import RESET, STEP, WAIT
from hotlap.interventions import rewrite
from hotlap.interventions.intervention import Intervention
from hotlap.interventions.layouts import TO_ONE_PROCESS, TO_WORKERS
from hotlap.record.finding import Finding
from hotlap.record.what_if import Change

IPC = 2e-4  # seconds that a message to a worker and its answer take, about
SMALL = 5e-5  # of these in the main process, if the answer is small
WAKING = 1e-4  # seconds of it until the other process runs: the what-if curve is measured between threads
CHEAP = 2e-3  # seconds: a step below this may be cheaper to make than to ask for
HEAVY = 2e-3  # seconds per step from which an environment counts as heavy
PER_BYTE = 3e-9  # seconds to pickle, send, receive and unpickle one, about
LARGE = 16_384  # bytes per step above which the payload matters


def _vector_step(e: Evidence) -> float:
    """Seconds of the main process per environment step, in stepping and waiting."""
    return e.exclusive_share(STEP, WAIT) * e.wall / e.env_steps if e.env_steps else 0.0


def _message(e: Evidence) -> float:
    """Seconds that a message to a worker and its answer take: with the script's own payload, if that was measured."""
    curve = e.curves.of(Change.PIPE)
    return curve.costs[0].seconds + WAKING if curve else IPC


def _worker_step(e: Evidence) -> float:
    """Seconds of CPU that one environment step takes in a worker."""
    if not e.workers:
        return 0.0
    row = e.workers.median
    if e.workers.count <= e.cores or not row.env_share > row.cpu_share > 0:
        return row.step_seconds
    return row.step_seconds * row.cpu_share / row.env_share  # the rest is waiting for a core


def _bytes(e: Evidence) -> float:
    """Bytes that pass per environment step, both ways, as far as messages were seen."""
    samples = [line.sample for lines in e.run.workers.values() for line in lines]
    sent = sum(sample.counts.get(IPC_BYTES, 0.0) for sample in samples)
    steps = sum(sample.counts.get(ENV_STEPS, 0.0) for sample in samples)
    return sent / steps if steps else float(e.counters.ipc_bytes_per_env_step or 0.0)


def in_one_process(c: Context, f: Finding) -> list[Intervention]:
    title = "environments in one process"
    if c.evidence.is_system:
        return [config(title, workers=0)]
    return c.edited_all(title, lambda code: rewrite.renamed(code, TO_ONE_PROCESS)) or [switch(title, "one-process")]


def payload(e: Evidence) -> Suspicion | None:
    """Messages of 16 KB per step or more, while workers are idle; or a pool's results, as large as the time that is waited."""
    if not e.workers or not e.env_steps:
        return _results_of_a_pool(e)
    if _bytes(e) < LARGE:
        return None

    def unpacking(stack: StackSample) -> bool:
        return stack.stage in (STEP, WAIT) and any(
            frame.name in ("loads", "recv", "_recv", "_recv_bytes", "concatenate", "deepcopy") for frame in stack.frames
        )

    share, spent, row = e.exclusive_share(STEP, WAIT), _vector_step(e), e.workers.median
    small = _worker_step(e) / min(e.cores, e.workers.count) * 1.1 + SMALL  # what a step takes if hardly anything is sent
    part = max(0.0, 1 - small / spent) if spent else 0.0
    saved = Saved(share * part, 0.65 * share * part, share * min(1.0, part + 0.2))  # making what is sent takes time, too
    if saved.value < 0.03:
        return None
    evidence = (
        f"Each step sends {units.size(_bytes(e))} between processes; environments work for {units.share(row.env_share)} "
        f"of the workers' time, and the main process waits or steps for {units.share(share)} of its own."
    )
    return Suspicion(WAIT, (evidence,), saved, e.where(unpacking), covers=unpacking)


def _results_of_a_pool(e: Evidence) -> Suspicion | None:
    """Workers that play whole episodes: what their steps take is not known, what comes back is."""
    share, received = e.exclusive_share(WAIT), e.count(IPC_RECEIVED)
    part = received * PER_BYTE / max(share * e.wall, 1e-9)
    if share < 0.15 or part < 0.25:
        return None
    evidence = (
        f"{units.size(received / e.wall)} per second come back from worker processes, and the main process waits for "
        f"{units.share(share)} of its time."
    )
    return Suspicion(WAIT, (evidence,), Saved(share * min(0.85, part), 0.3 * share * min(1.0, part), share))


def less_payload(c: Context, f: Finding) -> list[Intervention]:
    return [*in_one_process(c, f), switch("infos are empty", "infos-empty", upper_bound=True)]


PAYLOAD = Cause(
    id="ipc-payload",
    title="what travels between processes is large",
    fix="send less: small observations, empty infos, shared memory",
    rule=payload,
    confirm="all environments in one process, and empty infos",
    remedies=less_payload,
    sources=("google-deepmind/open_spiel#1550", "S4"),
    explains=("subproc-cheap-env", "env-oversubscribe", "vec-straggler"),
)


def straggler(e: Evidence) -> Suspicion | None:
    """A worker's slowest steps take ten times its median or more, or all steps of one worker three times those of the others;
    and the main process waits."""
    if not e.workers or e.workers.count < 2:
        return None
    row, slowest = e.workers.median, e.workers.slowest.times
    if row.step_seconds and slowest.step_seconds > 3 * row.step_seconds:
        return _slow_worker(e, row.step_seconds, slowest.step_seconds)
    mean, median, late = row.step_seconds, row.step_median, row.step_p99
    share = e.exclusive_share(STEP, WAIT)
    if not median or late < 10 * median or mean < 1.5 * median or share < 0.15 or late < 1e-3:
        return None
    each = _vector_step(e) * e.num_envs  # seconds of one vector step
    balanced = max(mean * e.num_envs / min(e.cores, e.workers.count), mean)
    part = max(0.0, 1 - balanced / each) if each else 0.0
    saved = Saved(share * part * 0.8, share * part * 0.2, share * min(1.0, part + 0.4))
    if saved.value < 0.03:
        return None
    evidence = (
        f"A step takes {units.seconds(median)} in the median, {units.seconds(late)} in the slowest hundredth: each vector step "
        f"({units.seconds(each)}) waits for the slowest of {e.num_envs}."
    )
    return Suspicion(WAIT, (evidence,), saved)


def _slow_worker(e: Evidence, usual: float, slowest: float) -> Suspicion | None:
    """One worker is slower than the others by far, and each vector step waits for it."""
    assert e.workers is not None
    share, each = e.exclusive_share(STEP, WAIT), _vector_step(e) * e.num_envs
    if share < 0.15 or not each or slowest < 0.3 * each:  # else something else is waited for
        return None
    part = max(0.0, 1 - (usual + IPC) / slowest) * min(1.0, slowest / each)
    evidence = (
        f"A step of worker {e.workers.slowest.worker} takes {units.seconds(slowest)}, of the others {units.seconds(usual)}: "
        f"each vector step ({units.seconds(each)}) waits for it."
    )
    return Suspicion(WAIT, (evidence,), Saved(0.8 * share * part, 0.4 * share * part, share))


STRAGGLER = Cause(
    id="vec-straggler",
    title="each vector step waits for the slowest environment",
    fix="give each worker several environments, or do not wait for all: asynchronous batches",
    rule=straggler,
    confirm="all environments in one process",
    remedies=in_one_process,
    sources=("hill-a/stable-baselines#390", "hill-a/stable-baselines#866"),
    explains=("subproc-cheap-env", "env-oversubscribe"),
)


def cheap_env(e: Evidence) -> Suspicion | None:
    """A step reaches the main process later than it would take to make it there."""
    if not e.workers:
        return None
    step, spent, share = _worker_step(e), _vector_step(e), e.exclusive_share(STEP, WAIT)
    serial = step * 1.1 + 2e-6
    if not 0 < step < CHEAP or spent <= 1.15 * serial:
        return None
    part = 1 - serial / spent
    crowd = 0.4 * (1 - share) if e.workers.count > e.cores else 0.1  # workers take cores and caches from all the rest
    saved = Saved(share * part + 0.4 * crowd, share * max(0.0, part - 0.25), share * min(1.0, part + 0.1) + crowd).narrowed()
    if share * part < 0.04:
        return None
    evidence = (
        f"A step takes {units.seconds(step)} in a worker, and {units.seconds(spent)} per environment until the main process "
        f"has it ({e.workers.count} workers). In one process it would take about {units.seconds(serial)}."
    )
    return Suspicion(WAIT, (evidence,), saved)


CHEAP_ENV = Cause(
    id="subproc-cheap-env",
    title="talking to worker processes costs more than the steps they make",
    fix="run the environments in one process, or many of them per worker",
    rule=cheap_env,
    confirm="all environments in one process",
    remedies=in_one_process,
    sources=("openai/baselines#608", "thu-ml/tianshou#387"),
    explains=("env-oversubscribe",),
)


def oversubscribe(e: Evidence) -> Suspicion | None:
    """Twice as many workers as cores, and waiting that the CPU time of the steps does not explain."""
    if not e.workers or e.workers.count < 2 * e.cores + 1:
        return None
    share, spent = e.exclusive_share(STEP, WAIT), _vector_step(e)
    fair = _worker_step(e) / min(e.cores, e.workers.count) * 1.1 + _message(e) / max(e.num_envs / e.cores, 1)
    part = max(0.0, 1 - fair / spent) if spent else 0.0
    saved = Saved(share * part * 0.7, share * part * 0.2, share * min(1.0, part + 0.2))
    if saved.value < 0.04:
        return None
    evidence = (
        f"{e.workers.count} worker processes share {e.cores:g} cores; a step takes {units.seconds(_worker_step(e))} of CPU "
        f"and {units.seconds(spent)} of the main process's time."
    )
    return Suspicion(WAIT, (evidence,), saved)


OVERSUBSCRIBE = Cause(
    id="env-oversubscribe",
    title="there are more worker processes than cores to run them",
    fix="as many workers as cores, several environments in each",
    rule=oversubscribe,
    confirm="all environments in one process",
    remedies=in_one_process,
    sources=("bupticybee/AlphaNLHoldem#10",),
)


def serial_heavy(e: Evidence) -> Suspicion | None:
    """Several environments of more than half a millisecond per step in one process, with cores to spare."""
    if e.workers or e.num_envs < 2 or e.cores < 2 or (e.is_system and e.config.get("turbo", True)):
        return None
    share = e.exclusive_share(STEP, RESET)
    each = share * e.wall / e.env_steps if e.env_steps else 0.0
    if each < 3 * IPC or share < 0.2:
        return None
    parallel = each / min(e.cores, e.num_envs) * 1.12 + _message(e) / min(e.cores, e.num_envs)
    part = max(0.0, 1 - parallel / each)
    saved = Saved(share * part * 0.95, share * part * 0.55, share * min(1.0, part * 1.15))
    if saved.value < 0.05:
        return None
    evidence = (
        f"{e.num_envs} environments of {units.seconds(each)} per step one after another ({units.share(share)} of the time), "
        f"while {e.cores:g} cores could run them side by side in about {units.seconds(parallel)} each."
    )
    return Suspicion(STEP, (evidence,), saved, outweighs_all=each >= HEAVY)


def in_workers(c: Context, f: Finding) -> list[Intervention]:
    title = "environments in worker processes"
    if c.evidence.is_system:
        return [config(title, workers=int(c.evidence.cores))]
    return c.edited_all(title, lambda code: rewrite.renamed(code, TO_WORKERS)) or [switch(title, "workers")]


SERIAL_HEAVY = Cause(
    id="serial-heavy-env",
    title="heavy environments step one after another while cores are idle",
    fix="worker processes: SubprocVecEnv, AsyncVectorEnv",
    rule=serial_heavy,
    confirm="the environments in worker processes",
    remedies=in_workers,
    sources=("DLR-RM/stable-baselines3#1778",),
    explains=("env-python-loop", "too-few-envs"),
)


def actor_learner(e: Evidence) -> Suspicion | None:
    """Workers' steps take longer while the main process learns."""
    if not e.workers or e.inclusive_share(stages.UPDATE) < 0.2:
        return None
    learning: list[float] = []
    collecting: list[float] = []
    windows = [(s.start, s.start + s.wall, s.exclusive) for s in e.samples]
    for lines in e.run.workers.values():
        for line in lines:
            cost = line.sample.counts.get(STEP_MEDIAN)
            middle = line.sample.start + line.sample.wall / 2
            seconds = next((by_stage for begin, end, by_stage in windows if begin <= middle < end), None)
            if cost and seconds is not None:
                busy = sum(t for path, t in seconds.items() if path.startswith(stages.UPDATE)) > sum(seconds.values()) / 2
                (learning if busy else collecting).append(cost)
    if min(len(learning), len(collecting)) < 5:
        return None
    slower = sorted(learning)[len(learning) // 2] / sorted(collecting)[len(collecting) // 2]
    if slower < 1.3:
        return None
    evidence = f"A step in a worker takes {slower:.1f} times as long while the main process learns."
    part = e.exclusive_share(STEP, WAIT, RESET) * (1 - 1 / slower)
    return Suspicion(WAIT, (evidence,), Saved(part / 2, 0.0, part))


def pinned_learner(c: Context, f: Finding) -> list[Intervention]:
    return [switch("the learner on the first core", "affinity", cores=[0])]


ACTOR_LEARNER = Cause(
    id="actor-learner-cores",
    title="the learner takes the cores that environments step on",
    fix="pin the learner and the workers to different cores",
    rule=actor_learner,
    confirm="pin the learner",
    remedies=pinned_learner,
    sources=("Motphys/MotrixLab#62",),
)


def broadcast(e: Evidence) -> Suspicion | None:
    """Per update, as many bytes go out as the network weighs, to every worker."""
    workers, weights = e.workers.count if e.workers else 0, 4 * e.parameters
    if not workers or not e.updates or not weights or weights < 100_000:
        return None
    per_update = e.count(IPC_BYTES) / e.updates
    share = e.exclusive_share(stages.COLLECT, WAIT)
    if per_update < 0.5 * weights * workers or share <= 0.05:
        return None
    evidence = f"{units.size(per_update)} go out to {workers} workers per update; the network weighs {units.size(weights)}."
    return Suspicion(stages.COLLECT, (evidence,), Saved(0.3 * share, 0.0, share))


BROADCAST = Cause(
    id="broadcast-payload",
    title="weights or results are shipped to every worker",
    fix="ship less, and less often",
    rule=broadcast,
    sources=("ray-project/ray#41894", "ray-project/ray#50477"),
)

CAUSES = (PAYLOAD, STRAGGLER, CHEAP_ENV, OVERSUBSCRIBE, SERIAL_HEAVY, ACTOR_LEARNER, BROADCAST)
