"""Where training ran, if that is not the script's main thread: in processes that it started, or in threads."""

from collections.abc import Iterator

from hotlap.core import stages, units
from hotlap.core.paths import ACT, ENVIRONMENT, WAIT
from hotlap.record.learner import Learners, LearnerTimes
from hotlap.record.profile import Profile
from hotlap.report.sections import Cells, Notes, Section, Table

ONE_CORE = (0.85, 1.1)  # cores in use
CONTENDED = 1.4  # threads at work at a time
MOST = 8  # learners with a row of their own: of more, the slowest and the fastest


def learner_sections(profile: Profile) -> list[Section]:
    """A line that says whose stages these are, and tables of the others."""
    built: list[Section] = []
    if where := [*_where(profile)]:
        built.append(Notes(where, "result"))
    if profile.learners and len(profile.learners.each) > 1:
        built.append(_learners(profile.learners))
    if profile.other_threads:
        built.append(_threads(profile))
    return built


def _where(profile: Profile) -> Iterator[str]:
    learners = profile.learners
    if learners:
        count = len(learners.each)
        processes = f"{count} process{'es' if count > 1 else ''}{' of Ray' if learners.in_ray else ''}"
        what = "stages are that process's"
        if count > 1:
            what = "stages are their mean, steps and updates their sum"
        if learners.world_size > 1:
            what = "stages are their mean; they average their gradients, so that an update of all counts as one"
        lines = "" if count == 1 else f"; lines are those of process {learners.shown}"
        yield f"Training ran in {processes}: {what}{lines}.{_script(learners)}"
    if profile.learner_thread:
        others = len(profile.other_threads)
        beside = f" Beside it, {others} thread{'s' if others > 1 else ''} worked." if others else ""
        yield f"Training ran in thread {profile.learner_thread!r}: stages and lines are that thread's.{beside}"


def _script(learners: Learners) -> str:
    if learners.script_cpu is None or "script" in learners.each:
        return ""
    return f" The script's own process used {units.share(learners.script_cpu)} of a core meanwhile."


def _learners(learners: Learners) -> Table:
    def cells(times: LearnerTimes) -> tuple[str, ...]:
        shares = (times.collect_share, times.update_share, times.wait_share, times.cpu_share)
        rates = (times.updates_per_s, times.env_steps_per_s)
        return (*map(units.count, rates), *map(units.share, shares))

    ranked = sorted(learners.each.items(), key=lambda item: item[1].updates_per_s)
    shown = ranked if len(ranked) <= MOST else [ranked[0], ranked[len(ranked) // 2], ranked[-1]]
    rows: list[Cells] = [(name, *cells(times)) for name, times in shown]
    note = f"{len(ranked)} processes that learn, the slowest first" + ("" if shown is ranked else "; with the median one")
    columns = ("process", ">updates/s", ">env steps/s", ">collecting", ">learning", ">waiting", ">CPU")
    return Table("Processes that learn", columns, rows, note)


def _threads(profile: Profile) -> Table:
    rows: list[Cells] = []
    for name, shares in profile.other_threads.items():
        environment = sum(shares.get(path, 0.0) for path in ENVIRONMENT if path != WAIT)
        learning = sum(share for path, share in shares.items() if path.startswith(stages.UPDATE))
        parts = (environment, shares.get(ACT, 0.0), learning, shares.get(WAIT, 0.0))
        rows.append((name, *map(units.share, (*parts, max(0.0, 1 - sum(parts))))))
    cores = profile.counters.cpu_cores
    note = f"calls of environments, networks and learning; all threads together used {cores:.2f} cores"
    if ONE_CORE[0] < cores < ONE_CORE[1] and _inside(profile) > CONTENDED:
        note += ": Python's lock lets one of them run at a time"
    return Table("Other threads", ("thread", ">in the env", ">acting", ">learning", ">waiting", ">other"), rows, note)


def _inside(profile: Profile) -> float:
    """How many threads were at work at a time: more than cores in use means that calls waited for one another."""
    idle = sum(profile.stages[path].share for path in (WAIT, stages.UNATTRIBUTED) if path in profile.stages)
    others = (sum(share for path, share in shares.items() if path != WAIT) for shares in profile.other_threads.values())
    return 1 - idle + sum(others)
