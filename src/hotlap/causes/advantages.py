"""How rollouts become advantages and returns."""

import ast
import re

from hotlap.causes.cause import Cause, Suspicion
from hotlap.causes.evidence import Evidence
from hotlap.causes.remedy import Context, skipped_loop, switch
from hotlap.causes.stacks import StackSample
from hotlap.core import stages, units
from hotlap.interventions import rewrite
from hotlap.interventions.intervention import Intervention
from hotlap.record.finding import Finding


def gae_loop(e: Evidence) -> Suspicion | None:
    """Stack samples in a loop that runs backwards over the steps of a rollout."""

    def backwards(stack: StackSample) -> bool:
        return any(frame.user and any(_is_backwards(loop) for loop in e.loops(frame)) for frame in stack.frames)

    share = e.time_in(backwards)
    if share < 0.05:
        return None
    evidence = f"A loop backwards over the rollout's steps took {units.share(share)} of the time."
    return Suspicion(stages.ADVANTAGE, (evidence,), e.seen(share, 0.7, 1.0, 0.92), e.where(backwards))


def _is_backwards(loop: object) -> bool:
    if not isinstance(loop, ast.For):
        return False
    over = ast.unparse(loop.iter)
    return over.startswith("reversed(") or bool(re.match(r"range\(.+, -1, -1\)", over))


def numpy_loop(c: Context, f: Finding) -> list[Intervention]:
    if f.where is None:
        return [switch("advantages by hotlap's kernel", "gae-kernel")]
    return [*c.edited(f, "the loop over numpy's views", rewrite.numpy_loop), *skipped_loop(c, f)]


GAE_LOOP = Cause(
    id="gae-loop",
    title="advantages are computed by a loop of tiny tensor operations",
    fix="the same loop over numpy arrays, or compiled",
    rule=gae_loop,
    confirm="the same loop over numpy arrays",
    remedies=numpy_loop,
    sources=("verl-project/verl#2132", "pytorch/rl#1052"),
)

CAUSES = (GAE_LOOP,)
