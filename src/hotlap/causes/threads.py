"""Threads and containers."""

from hotlap.causes import curves
from hotlap.causes.cause import Cause, Saved, Suspicion
from hotlap.causes.evidence import Evidence
from hotlap.causes.remedy import Context, config, environment, switch
from hotlap.causes.stacks import StackSample
from hotlap.core import stages, units
from hotlap.core.counts import FORCED_SWITCHES, FORWARDS
from hotlap.core.paths import ACT, BACKWARD, LOSS, OPTIMIZER, STEP, WAIT
from hotlap.interventions import rewrite
from hotlap.interventions.intervention import Intervention
from hotlap.record.finding import Finding
from hotlap.record.what_if import Change


def torch_threads(e: Evidence) -> Suspicion | None:
    """More threads of torch than cores, in the script or in all its workers together."""
    threads = float((e.torch.threads if e.torch else None) or e.profile.threads.get("torch") or 1)
    share = e.network_share
    if threads > e.cores + 0.5:
        evidence = (
            f"torch runs {threads:.0f} threads on {e.cores:g} cores; learning and acting take {units.share(share)} of the "
            f"time, {e.count(FORCED_SWITCHES) / max(e.wall, 1e-9):.0f} forced switches per second."
        )
        return Suspicion(stages.UPDATE, (evidence,), _with_fewer_threads(e) or Saved(0.5 * share, 0.02, 0.95 * share))
    return _worker_threads(e)


def _with_fewer_threads(e: Evidence) -> Saved | None:
    """By the what-if curve: of learning as measured; acting and what else computes gain as well, but less is known of it."""
    factor = e.curves.form(Change.THREADS)
    if factor is None:
        return None
    return curves.saved([*e.changed(factor, LOSS, BACKWARD), *e.changed(factor.softened(), ACT, OPTIMIZER, stages.UPDATE)])


def _worker_threads(e: Evidence) -> Suspicion | None:
    if not e.workers:
        return None
    each = e.workers.median.threads
    computing, waited = each * e.workers.count, e.exclusive_share(STEP, WAIT)
    if each <= 1 or computing <= 2 * e.cores or waited <= 0.1 or not _workers_compute(e):
        return None
    evidence = (
        f"{e.workers.count} workers run {each:.0f} threads of torch each, {computing:.0f} in all, on "
        f"{e.cores:g} cores; the main process waits for {units.share(waited)} of its time."
    )
    return Suspicion(WAIT, (evidence,), Saved(0.4 * waited, 0.02, 0.9 * waited))


def _workers_compute(e: Evidence) -> bool:
    """Whether networks run in worker processes, or they use more CPU than one thread could."""
    rows = e.workers.each.values() if e.workers else ()
    counted = {name for lines in e.run.workers.values() for line in lines for name in line.sample.counts}
    environments = [source for code in e.codes.values() for source in code.classes_with("step")]
    return (
        any(f"{FORWARDS}@" in name for name in counted)
        or any("torch." in source or "nn." in source for source in environments)
        or any(row.cpu_share > 1.05 or row.act_share > 0.02 for row in rows)
    )


def one_thread(c: Context, f: Finding) -> list[Intervention]:
    if f.stage == WAIT:
        return [environment("one thread per process", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")]
    return _torch_threads(c, 1)


def _torch_threads(c: Context, number: int) -> list[Intervention]:
    title = f"{number} thread{'s' if number > 1 else ''} for torch"
    if c.evidence.is_system:
        return [config(title, torch_threads=number)]
    patch = c.edited_all(title, lambda code: rewrite.threads(code, number))
    return [*patch[:1], switch(title, "threads", number=number)]


TORCH_THREADS = Cause(
    id="torch-oversubscribe",
    title="more threads compute than there are cores",
    fix="give each process its share of the cores: OMP_NUM_THREADS and torch.set_num_threads",
    rule=torch_threads,
    confirm="one thread per process",
    remedies=one_thread,
    sources=("DLR-RM/stable-baselines3#121", "pytorch/torchtitan#4038"),
    explains=("env-oversubscribe", "subproc-cheap-env", "cgroup-miscount", "vec-straggler"),
)


def cgroup(e: Evidence) -> Suspicion | None:
    """The container's quota stops the process."""
    share = e.counters.throttled_share
    if share < 0.03:
        return None
    evidence = f"The container's quota stopped it for {units.share(share)} of the time ({e.cores:g} cores allowed)."
    return Suspicion(stages.UPDATE, (evidence,), Saved(0.8 * share, 0.2 * share, min(0.95, 1.5 * share)))


def threads_by_quota(c: Context, f: Finding) -> list[Intervention]:
    return _torch_threads(c, max(1, int(c.evidence.cores)))


CGROUP = Cause(
    id="cgroup-miscount",
    title="thread pools are sized for the host, and the container may use less",
    fix="as many threads as the container's quota has cores",
    rule=cgroup,
    confirm="threads by the quota",
    remedies=threads_by_quota,
    sources=("dmlc/xgboost#7653", "Unity-Technologies/ml-agents#4471"),
)


def cv2_threads(e: Evidence) -> Suspicion | None:
    """OpenCV has a pool of threads in each process, more than the cores."""
    if not any("cv2." in code.text for code in e.codes.values()):  # a library may import it and never use it
        return None

    def drawing(stack: StackSample) -> bool:
        return "cv2." in e.code(stack.user_frame)

    share = e.time_in(drawing)
    workers = e.workers.count if e.workers else 0
    in_workers = max((row.cv2_threads for row in e.workers.each.values()), default=0.0) if e.workers else 0.0
    threads = max(float(e.profile.threads.get("cv2", 0)), in_workers)
    if threads < 2 or threads * max(workers, 1) <= e.cores or max(share, e.exclusive_share(WAIT) if workers else 0.0) < 0.1:
        return None
    part = share or e.exclusive_share(WAIT, STEP)
    evidence = f"OpenCV runs {threads:.0f} threads in each of {max(workers, 1)} processes, on {e.cores:g} cores."
    return Suspicion(STEP, (evidence,), Saved(0.4 * part, 0.02, 0.9 * part), e.where(drawing), covers=drawing)


def without_cv2_threads(c: Context, f: Finding) -> list[Intervention]:
    return [switch("OpenCV without threads", "cv2-threads", number=0)]


CV2_THREADS = Cause(
    id="cv2-threads",
    title="OpenCV runs a pool of threads in every process",
    fix="cv2.setNumThreads(0)",
    rule=cv2_threads,
    confirm="OpenCV without threads",
    remedies=without_cv2_threads,
    sources=("openai/universe-starter-agent#33",),
    explains=("env-oversubscribe", "subproc-cheap-env"),
)


def gil_locks(e: Evidence) -> Suspicion | None:
    """Stack samples in waiting for other threads."""

    def waiting(stack: StackSample) -> bool:
        innermost = stack.frames[-1] if stack.frames else None
        return innermost is not None and innermost.file.endswith(("threading.py", "queue.py")) and stack.stage != WAIT

    share = e.time_in(waiting)
    if share < 0.1:
        return None
    evidence = f"The training thread waited for other threads for {units.share(share)} of the time."
    return Suspicion(stages.UNATTRIBUTED, (evidence,), e.seen(share, 0.2, 1.0), e.where(waiting), covers=waiting)


GIL_LOCKS = Cause(
    id="gil-locks",
    title="threads of Python wait for each other",
    fix="processes instead of threads, and bounded queues",
    rule=gil_locks,
    sources=("ray-project/ray#50379", "ray-project/ray#59544"),
)

CAUSES = (TORCH_THREADS, CGROUP, CV2_THREADS, GIL_LOCKS)
