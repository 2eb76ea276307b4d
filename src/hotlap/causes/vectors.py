"""Rules about how environments run: in one process or in several, and what passes between them."""

from hotlap.causes.environments import HEAVY
from hotlap.causes.evidence import Evidence, Look
from hotlap.core import stages, units
from hotlap.core.counts import ENV_STEPS
from hotlap.core.paths import RESET, STEP, WAIT
from hotlap.record.finding import Finding, Saved

IPC = 2e-4  # seconds that a message to a worker and its answer take, about
CHEAP = 2e-3  # seconds: a step below this may be cheaper to make than to ask for
LARGE = 16_384  # bytes per step that are worth a look


def _vector_step(e: Evidence) -> float:
    """Seconds of the main process per environment step, in stepping and waiting."""
    return e.own_share(STEP, WAIT) * e.wall / e.env_steps if e.env_steps else 0.0


def _worker_step(e: Evidence) -> float:
    """Seconds of CPU that one environment step takes in a worker."""
    if not e.workers:
        return 0.0
    row = e.workers["median"]
    if e.workers["count"] <= e.cores or not row["env_share"] > row["cpu_share"] > 0:
        return float(row["step_seconds"])
    return float(row["step_seconds"] * row["cpu_share"] / row["env_share"])  # the rest is waiting for a core


def _bytes(e: Evidence) -> float:
    """Bytes that pass per environment step, both ways, as far as messages were seen."""
    sent = sum(line.sample.counts.get("ipc_bytes", 0.0) for lines in e.run.workers.values() for line in lines)
    steps = sum(line.sample.counts.get(ENV_STEPS, 0.0) for lines in e.run.workers.values() for line in lines)
    return sent / steps if steps else float(e.counters.get("ipc_bytes_per_env_step") or 0.0)


def payload(e: Evidence) -> Finding | None:
    """Messages of 16 KB per step or more, while workers are idle."""
    if not e.workers or _bytes(e) < LARGE:
        return None

    def unpacking(look: Look) -> bool:
        return look.stage in (STEP, WAIT) and any(
            frame.name in ("loads", "recv", "_recv", "_recv_bytes", "concatenate", "deepcopy") for frame in look.frames
        )

    share = e.own_share(STEP, WAIT)
    row = e.workers["median"]
    idle = share * max(0.0, 1 - row["env_share"] / max(1 - e.update_share, 0.05))
    saved = Saved(0.7 * idle, 0.2 * idle, share)
    if saved.value < 0.03:
        return None
    said = (
        f"Each step sends {units.size(_bytes(e))} between processes; environments work for {units.share(row['env_share'])} "
        f"of the workers' time, and the main process waits or steps for {units.share(share)} of its own.",
    )
    return Finding("ipc-payload", WAIT, said, saved, e.where(unpacking))


def straggler(e: Evidence) -> Finding | None:
    """A worker's slowest steps take ten times its median or more, and the main process waits."""
    if not e.workers or e.workers["count"] < 2:
        return None
    row = e.workers["median"]
    mean, median, late = row["step_seconds"], row["step_median"], row["step_p99"]
    share = e.own_share(STEP, WAIT)
    if not median or late < 10 * median or mean < 1.5 * median or share < 0.15 or late < 1e-3:
        return None
    each = _vector_step(e) * e.num_envs  # seconds of one vector step
    balanced = max(mean * e.num_envs / min(e.cores, e.workers["count"]), mean)
    part = max(0.0, 1 - balanced / each) if each else 0.0
    saved = Saved(share * part * 0.8, share * part * 0.2, share * min(1.0, part + 0.4))
    if saved.value < 0.03:
        return None
    said = (
        f"A step takes {units.seconds(median)} in the median, {units.seconds(late)} in the slowest hundredth: each vector step "
        f"({units.seconds(each)}) waits for the slowest of {e.num_envs}.",
    )
    return Finding("vec-straggler", WAIT, said, saved)


def cheap_env(e: Evidence) -> Finding | None:
    """A step reaches the main process later than it would take to make it there."""
    if not e.workers:
        return None
    step, spent, share = _worker_step(e), _vector_step(e), e.own_share(STEP, WAIT)
    serial = step * 1.1 + 2e-6
    if not 0 < step < CHEAP or spent <= 1.15 * serial:
        return None
    part = 1 - serial / spent
    crowd = 0.4 * (1 - share) if e.workers["count"] > e.cores else 0.1  # workers take cores and caches from all the rest
    saved = Saved(share * part + 0.4 * crowd, share * max(0.0, part - 0.25), share * min(1.0, part + 0.1) + crowd)
    if share * part < 0.04:
        return None
    said = (
        f"A step takes {units.seconds(step)} in a worker, and {units.seconds(spent)} per environment until the main process "
        f"has it ({e.workers['count']} workers). In one process it would take about {units.seconds(serial)}.",
    )
    return Finding("subproc-cheap-env", WAIT, said, saved)


def oversubscribe(e: Evidence) -> Finding | None:
    """Twice as many workers as cores, and waiting that the steps' own CPU time does not explain."""
    if not e.workers or e.workers["count"] < 2 * e.cores + 1:
        return None
    share, spent = e.own_share(STEP, WAIT), _vector_step(e)
    fair = _worker_step(e) / min(e.cores, e.workers["count"]) * 1.1 + IPC / max(e.num_envs / e.cores, 1)
    part = max(0.0, 1 - fair / spent) if spent else 0.0
    saved = Saved(share * part * 0.7, share * part * 0.2, share * min(1.0, part + 0.2))
    if saved.value < 0.04:
        return None
    said = (
        f"{e.workers['count']} worker processes share {e.cores:g} cores; a step takes {units.seconds(_worker_step(e))} of CPU "
        f"and {units.seconds(spent)} of the main process's time.",
    )
    return Finding("env-oversubscribe", WAIT, said, saved)


def serial_heavy(e: Evidence) -> Finding | None:
    """Several environments of more than half a millisecond per step in one process, with cores to spare."""
    if e.workers or e.num_envs < 2 or e.cores < 2 or (e.is_system and e.config.get("turbo", True)):
        return None
    share = e.own_share(STEP, RESET)
    each = share * e.wall / e.env_steps if e.env_steps else 0.0
    if each < 3 * IPC or share < 0.2:
        return None
    parallel = each / min(e.cores, e.num_envs) * 1.12 + IPC / min(e.cores, e.num_envs)
    part = max(0.0, 1 - parallel / each)
    saved = Saved(share * part * 0.95, share * part * 0.55, share * min(1.0, part * 1.15))
    if saved.value < 0.05:
        return None
    said = (
        f"{e.num_envs} environments of {units.seconds(each)} per step one after another ({units.share(share)} of the time), "
        f"while {e.cores:g} cores could run them side by side in about {units.seconds(parallel)} each.",
    )
    return Finding("serial-heavy-env", STEP, said, saved, numbers={"heavy": each >= HEAVY})


def actor_learner(e: Evidence) -> Finding | None:
    """Workers' steps take longer while the main process learns."""
    if not e.workers or e.share(stages.UPDATE) < 0.2:
        return None
    learning: list[float] = []
    collecting: list[float] = []
    windows = [(s.start, s.start + s.wall, s.own) for s in e.samples]
    for lines in e.run.workers.values():
        for line in lines:
            cost = line.sample.counts.get("step_median")
            middle = line.sample.start + line.sample.wall / 2
            own = next((own for begin, end, own in windows if begin <= middle < end), None)
            if cost and own is not None:
                busy = sum(t for path, t in own.items() if path.startswith(stages.UPDATE)) > sum(own.values()) / 2
                (learning if busy else collecting).append(cost)
    if min(len(learning), len(collecting)) < 5:
        return None
    slower = sorted(learning)[len(learning) // 2] / sorted(collecting)[len(collecting) // 2]
    if slower < 1.3:
        return None
    said = (f"A step in a worker takes {slower:.1f} times as long while the main process learns.",)
    part = e.own_share(STEP, WAIT, RESET) * (1 - 1 / slower)
    return Finding("actor-learner-cores", WAIT, said, Saved(part / 2, 0.0, part))


def broadcast(e: Evidence) -> Finding | None:
    """Per update, as many bytes go out as the network weighs, to every worker."""
    bytes_sent = e.count("ipc_bytes")
    weights = 4 * e.parameters
    workers = e.workers["count"] if e.workers else 0
    if not workers or not e.updates or not weights or weights < 100_000:
        return None
    per_update = bytes_sent / e.updates
    if per_update < 0.5 * weights * workers:
        return None
    share = e.own_share(stages.COLLECT, WAIT)
    said = (f"{units.size(per_update)} go out to {workers} workers per update; the network weighs {units.size(weights)}.",)
    return Finding("broadcast-payload", stages.COLLECT, said, Saved(0.3 * share, 0.0, share)) if share > 0.05 else None
