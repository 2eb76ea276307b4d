"""Rules about threads and containers, and about what goes on beside training: logs, evaluations, checkpoints."""

import re

from hotlap.causes.evidence import Evidence, Look
from hotlap.core import stages, units
from hotlap.core.counts import FORCED_SWITCHES
from hotlap.core.paths import ACT, ENVIRONMENT, STEP, WAIT
from hotlap.record.finding import Finding, Saved

_WRITES = re.compile(
    r"\.(write|writerow|writelines|flush|add_scalar|add_scalars|info|debug|dump)\(|\b(wandb|logger|run)\.log\(|\bprint\(|fsync\("
)


def torch_threads(e: Evidence) -> Finding | None:
    """More threads of torch than cores, in the script or in all its workers together."""
    threads = float(e.torch.get("threads") or e.doc["threads"].get("torch") or 1)
    neural = e.share(stages.UPDATE) + e.own_share(ACT)
    if threads > e.cores + 0.5:
        said = (
            f"torch runs {threads:.0f} threads on {e.cores:g} cores; learning and acting take {units.share(neural)} of the "
            f"time, {e.count(FORCED_SWITCHES) / max(e.wall, 1e-9):.0f} forced switches per second.",
        )
        return Finding("torch-oversubscribe", stages.UPDATE, said, Saved(0.5 * neural, 0.02, 0.95 * neural))
    if e.workers:
        row = e.workers["median"]
        computing = row["threads"] * e.workers["count"]
        waited = e.own_share(STEP, WAIT)
        if row["threads"] > 1 and computing > 2 * e.cores and _workers_compute(e) and waited > 0.1:
            said = (
                f"{e.workers['count']} workers run {row['threads']:.0f} threads of torch each, {computing:.0f} in all, on "
                f"{e.cores:g} cores; the main process waits for {units.share(waited)} of its time.",
            )
            return Finding("torch-oversubscribe", WAIT, said, Saved(0.4 * waited, 0.02, 0.9 * waited))
    return None


def _workers_compute(e: Evidence) -> bool:
    """Whether networks run in worker processes, or they use more CPU than one thread could."""
    assert e.workers is not None
    rows = e.workers["each"].values()
    forwards = any("forwards@" in name for lines in e.run.workers.values() for line in lines for name in line.sample.counts)
    environments = [c for code in e.codes.values() for c in code.classes_with("step")]
    in_steps = any("torch." in source or "nn." in source for source in environments)
    return forwards or in_steps or any(row["cpu_share"] > 1.05 or row["act_share"] > 0.02 for row in rows)


def cgroup(e: Evidence) -> Finding | None:
    """The container's quota stops the process."""
    share = float(e.counters.get("throttled_share") or 0.0)
    if share < 0.03:
        return None
    said = (f"The container's quota stopped it for {units.share(share)} of the time ({e.cores:g} cores allowed).",)
    return Finding("cgroup-miscount", stages.UPDATE, said, Saved(0.8 * share, 0.2 * share, min(0.95, 1.5 * share)))


def cv2_threads(e: Evidence) -> Finding | None:
    """OpenCV has a pool of threads in each process, more than the cores."""
    if not any("cv2." in code.text for code in e.codes.values()):  # a library may import it and never use it
        return None
    threads, drawing = e.doc["threads"].get("cv2", 0), lambda look: "cv2." in e.code(look.users)
    share = e.time_in(drawing)
    workers = e.workers["count"] if e.workers else 0
    threads = max(
        threads, max((row.get("cv2_threads", 0) for row in e.workers["each"].values()), default=0) if e.workers else 0
    )
    if threads < 2 or threads * max(workers, 1) <= e.cores or max(share, e.own_share(WAIT) if workers else 0.0) < 0.1:
        return None
    part = share or e.own_share(WAIT, STEP)
    said = (f"OpenCV runs {threads:.0f} threads in each of {max(workers, 1)} processes, on {e.cores:g} cores.",)
    return Finding("cv2-threads", STEP, said, Saved(0.4 * part, 0.02, 0.9 * part), e.where(drawing))


def gil_locks(e: Evidence) -> Finding | None:
    """Samples in waiting for other threads."""

    def waiting(look: Look) -> bool:
        innermost = look.frames[-1] if look.frames else None
        return innermost is not None and innermost.file.endswith(("threading.py", "queue.py")) and look.stage != WAIT

    share = e.time_in(waiting)
    if share < 0.1:
        return None
    said = (f"The training thread waited for other threads for {units.share(share)} of the time.",)
    return Finding("gil-locks", stages.UNATTRIBUTED, said, e.seen(share, 0.2, 1.0), e.where(waiting))


def logger(e: Evidence) -> Finding | None:
    """The log stage, and samples in lines that write."""

    def writing(look: Look) -> bool:
        return look.stage == stages.LOG or (
            look.stage not in (stages.CHECKPOINT, stages.EVALUATE)
            and (
                (look.users is not None and look.frames[-1].own and bool(_WRITES.search(e.code(look.users))))
                or any(frame.file.endswith(("logging/__init__.py", "csv.py")) for frame in look.frames)
                or any("tensorboard/" in f.file or "wandb/" in f.file for f in look.frames)
            )
        )

    share = max(e.own_share(stages.LOG), e.time_in(writing))
    if share < 0.04:
        return None
    calls = e.doc["stages"].get(stages.LOG, {}).get("calls", 0)
    said = [f"Logging took {units.share(share)} of the time."]
    if calls and e.env_steps:
        said.append(f"{calls / e.env_steps:.2f} calls per environment step.")
    return Finding("logger-per-step", stages.LOG, tuple(said), e.seen(share, 0.9, 1.0), e.where(writing))


def evaluation(e: Evidence) -> Finding | None:
    """The evaluate stage."""
    share = e.own_share(stages.EVALUATE)
    if share < 0.05:
        return None
    evaluating = lambda look: look.stage == stages.EVALUATE  # noqa: E731
    outermost = lambda look: next((f for f in look.frames if f.own and f.name != "<module>"), look.users)  # noqa: E731
    said = (f"Evaluation took {units.share(share)} of the time.",)
    return Finding("eval-dominates", stages.EVALUATE, said, e.saved(share, 0.8, 1.0, 0.92), e.where(evaluating, outermost))


def checkpoint(e: Evidence) -> Finding | None:
    """The checkpoint stage, and samples in functions that save."""
    names = {"save", "savez", "savez_compressed", "save_replay_buffer", "save_to_pkl"}

    def saving(look: Look) -> bool:
        packing = set() if look.stage.startswith(stages.COLLECT) else {"dump", "dumps"}  # messages to workers are packed too
        found = any(frame.name in names | packing and not frame.own for frame in look.frames)
        return look.stage == stages.CHECKPOINT or (found and look.stage not in ENVIRONMENT)

    share = max(e.own_share(stages.CHECKPOINT), e.time_in(saving))
    if share < 0.04:
        return None
    said = (f"Checkpoints took {units.share(share)} of the time.",)
    return Finding("ckpt-replay", stages.CHECKPOINT, said, e.saved(share, 0.85, 1.0), e.where(saving))
