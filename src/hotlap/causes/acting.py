"""Rules about choosing actions."""

from hotlap.causes.evidence import Evidence, Frame, Look
from hotlap.core import stages, units
from hotlap.core.counts import FORWARDS, GRADIENT_FORWARDS
from hotlap.core.paths import ACT, LOSS, STEP, STORE
from hotlap.record.finding import Finding, Saved

MANY = 32  # environments from which a call of a small network is well used


def batch1(e: Evidence) -> Finding | None:
    """Several environments, and one call of the network, on one row, for each step of each."""
    share = e.own_share(ACT)
    calls = e.counters.get("act_calls_per_env_step") or 0.0
    batch = e.counters.get("act_batch") or 0.0
    if round(batch) in {net["inputs"] for net in e.facts.get("nets", [])}:
        batch = 1.0  # one row, without an axis for rows
    if e.num_envs < 2 or calls < 0.7 or batch > 1.5 or share < 0.08:
        return None
    part = 1 - 1 / e.num_envs
    said = (
        f"{e.num_envs} environments, and the network runs {calls:.2f} times per step of one, on {batch:.0f} row at a time; "
        f"acting takes {units.share(share)} of the time.",
    )
    acting = lambda look: look.stage == ACT  # noqa: E731
    return Finding("batch1-inference", ACT, said, Saved(share * part * 0.92, share * part * 0.6, share * part), e.where(acting))


def grad_in_rollout(e: Evidence) -> Finding | None:
    """Passes that choose actions build graphs, and the loss runs the network again."""
    share = e.own_share(ACT)
    built, all_of_them = e.count(f"{GRADIENT_FORWARDS}@{ACT}"), e.act_calls
    if not all_of_them or built < 0.5 * all_of_them or share < 0.05:
        return None
    if not e.count(f"{FORWARDS}@{LOSS}"):  # the graph of acting is what it learns from
        return None
    said = (
        f"{units.share(built / all_of_them)} of the passes that choose actions built a graph; acting takes "
        f"{units.share(share)} of the time, and the loss runs the network again.",
    )
    acting = lambda look: look.stage == ACT  # noqa: E731
    where = e.where(acting, lambda look: _calls_network(e, look))
    return Finding("grad-in-rollout", ACT, said, Saved(0.3 * share, 0.1 * share, 0.55 * share), where)


def _calls_network(e: Evidence, look: Look) -> Frame | None:
    """The innermost line of the user's code that acts and does not learn: not inside the network, which does both."""
    for frame in reversed(look.frames):
        if frame.own and frame.name != "forward" and (frame.file, frame.line) not in e.learning_lines:
            return frame
    return None


def dist_validate(e: Evidence) -> Finding | None:
    """Samples inside the checks of torch.distributions."""

    def checking(look: Look) -> bool:
        return any(
            (frame.file.endswith("distributions/distribution.py") and frame.name in ("__init__", "_validate_sample"))
            or frame.file.endswith("distributions/constraints.py")
            for frame in look.frames
        )

    share = e.time_in(checking)
    if share < 0.03:
        return None
    said = (f"Checks of distributions' arguments took {units.share(share)} of the time.",)
    return Finding("dist-validate", ACT, said, e.seen(share, 0.8, 1.0), e.where(checking))


def too_few_envs(e: Evidence) -> Finding | None:
    """One call of the network serves few environments, and acting takes much of the time."""
    if not e.act_calls or e.envs_per_call >= 8 or e.num_envs >= 8:
        return None
    share = e.own_share(ACT, STORE, stages.COLLECT, stages.UNATTRIBUTED)
    n = max(e.envs_per_call, 1.0)
    part, stepping = 1 - n / MANY, e.own_share(STEP)  # of a step, what a vector does once per call goes away too
    saved = Saved((share * 0.95 + 0.5 * stepping) * part, share * part * 0.7, (share + 0.9 * stepping) * part)
    if share * part < 0.15:
        return None
    said = (
        f"One call of the network serves {n:.0f} environment{'s' if n > 1.5 else ''}; acting and storing take "
        f"{units.share(share)} of the time, whatever the number of environments.",
    )
    return Finding("too-few-envs", ACT, said, saved, numbers={"num_envs": e.num_envs})
