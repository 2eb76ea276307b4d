"""The part of an investigation's report that says whether the changed variant learns as well."""

from hotlap.core import units
from hotlap.record.investigation import LearningCheck, LearningVerdict, LossCheck, ReturnCheck
from hotlap.report.sections import Cells, Table

WORDS = {
    LearningVerdict.NOT_WORSE: "learns no worse",
    LearningVerdict.WORSE: "LEARNS WORSE",
    LearningVerdict.UNCLEAR: "may or may not learn as well: too little was learned, or too few seeds, to tell",
}


def learning_lines(check: LearningCheck | None) -> list[str]:
    """The check in sentences."""
    if not check:
        return []
    lines = []
    if check.losses:
        lines.append(_losses(check.losses))
    if check.returns:
        lines.append(f"With all changes it {_words(check.returns)}{_difference(check.returns)}.")
    return [*lines, check.error] if check.error else lines


def _words(returns: ReturnCheck) -> str:
    pairs = [(a, b) for a, b in zip(*returns.scores, strict=False) if a is not None and b is not None]
    if returns.verdict is LearningVerdict.UNCLEAR and len(pairs) > 1 and all(b < a for a, b in pairs):
        return f"learned less on all {len(pairs)} seeds, too few to tell by how much"
    return WORDS.get(returns.verdict, str(returns.verdict))


def _losses(losses: LossCheck) -> str:
    if losses.verdict is LearningVerdict.SAME_LOSSES:
        close = f" (to {losses.difference:.1g} of their size)" if losses.difference is not None else ""
        return f"They compute the same: {losses.compared} losses agree{close}."
    return f"Losses before and after: {losses.verdict} ({losses.compared} compared)."


def _difference(returns: ReturnCheck) -> str:
    if returns.ci95 is None or returns.difference is None or returns.margin is None:
        return ""
    low, high = returns.ci95
    return (
        f" (return {returns.difference:+.3g}, 95% {low:+.3g} to {high:+.3g}, allowed {-returns.margin:.3g}, "
        f"{returns.seeds} seeds, {units.count(returns.steps)} steps each)"
    )


def learning_table(check: LearningCheck) -> Table:
    rows: list[Cells] = []
    if check.losses:
        rows.append(("losses", f"{check.losses.verdict}: {check.losses.compared} compared"))
    if check.returns:
        rows += _return_rows(check.returns)
    if check.error:
        rows.append(("note", check.error))
    note = "mean return of the last quarter of equally many steps, seed by seed"
    return Table("Does it learn as well?", ("", ""), rows, note)


def _return_rows(returns: ReturnCheck) -> list[Cells]:
    rows: list[Cells] = [("returns", str(returns.verdict))]
    for name, scores in zip(("original", "changed"), returns.scores, strict=False):
        rows.append((name, ", ".join("-" if score is None else f"{score:.3g}" for score in scores)))
    if returns.time_to_level and returns.level is not None:
        shown = [_times(times, returns.seeds) for times in returns.time_to_level]
        text = "; ".join(f"{name} {times}" for name, times in zip(("original", "changed"), shown, strict=False))
        if ratio := returns.time_ratio:
            low, high = ratio.ci95
            interval = f"(95% {low:.2f}-{high:.2f})" if ratio.seeds > 1 else "(one seed: no interval)"
            text += f"; {ratio.ratio:.2f}x {interval} as soon"
        rows.append((f"to {returns.level:.3g}", text))
    return rows


def _times(times: tuple[float | None, ...], seeds: int) -> str:
    known = [seconds for seconds in times if seconds is not None]
    mean = f", {units.seconds(sum(known) / len(known))}" if known else ""
    return f"{len(known)} of {seeds} seeds{mean}"
