"""Remedies that use `hotlap.fast`, or one operation where a loop was: fixes first, then the upper bound where none fits."""

from hotlap.causes.remedy import Context, recorded, skipped_loop, switch
from hotlap.interventions import rewrite
from hotlap.interventions.intervention import Intervention, together
from hotlap.record.finding import Finding


def all_steps_at_once(c: Context, f: Finding) -> list[Intervention]:
    """A loop backwards over a rollout."""
    return [
        *c.edited(f, "all steps at once, by hotlap_returns.py", rewrite.vectorised_returns, drop_in="returns"),
        *c.edited(f, "the loop over numpy's views", rewrite.numpy_loop),
        *skipped_loop(c, f),
    ]


def ring_of_arrays(c: Context, f: Finding) -> list[Intervention]:
    """A deque or list of transitions that batches are drawn from."""
    return [*c.edited(f, "a ring of arrays, by hotlap_replay.py", rewrite.ring, drop_in="replay"), *recorded(c, f)]


def parameters_at_once(c: Context, f: Finding) -> list[Intervention]:
    """Loops over parameters: the user's own and torch's, tested together because they are one cause."""
    edits = [
        *c.edited(f, "one call for all parameters, by hotlap_polyak.py", rewrite.soft_update, drop_in="polyak"),
        *c.edited_all("fused optimizers", rewrite.fused_optimizers),
        *c.edited_all("gradients clipped at once", rewrite.clipped_at_once),
    ]
    whole = [together(edits)] if edits else []
    return [*whole, switch("optimizers take all tensors at once", "foreach"), *skipped_loop(c, f)]


def rows_at_once(c: Context, f: Finding) -> list[Intervention]:
    """A loop over the rows of a minibatch, in the loss."""
    return [*c.edited(f, "all rows at once, by scatter_add_", rewrite.scattered_rows), *skipped_loop(c, f)]
