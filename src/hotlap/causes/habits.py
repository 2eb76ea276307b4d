"""Work beside training: logs, evaluations, checkpoints."""

import re

from hotlap.causes.cause import Cause, Suspicion
from hotlap.causes.evidence import Evidence
from hotlap.causes.remedy import Context, switch
from hotlap.causes.stacks import StackSample
from hotlap.core import stages, units
from hotlap.core.paths import ENVIRONMENT
from hotlap.interventions import rewrite
from hotlap.interventions.intervention import Intervention
from hotlap.record.finding import Finding
from hotlap.record.stacks import Frame

_WRITES = re.compile(
    r"\.(write|writerow|writelines|flush|add_scalar|add_scalars|info|debug|dump)\(|\b(wandb|logger|run)\.log\(|\bprint\(|fsync\("
)
_EVALUATES = re.compile(r"_*(run_|do_)?(eval|evaluate|evaluation|validate|validation)(_|$)")
_STATES = re.compile(r"x|s|g|(game|state|board|lea(f|ve)|node|position|plane|obs|observation|action)s?")
_SAVES = {"save", "savez", "savez_compressed", "save_replay_buffer", "save_to_pkl"}


def logger(e: Evidence) -> Suspicion | None:
    """The log stage, and stack samples in lines that write."""

    def writing(stack: StackSample) -> bool:
        if stack.stage in (stages.LOG, stages.CHECKPOINT, stages.EVALUATE):
            return stack.stage == stages.LOG
        in_line = stack.user_frame is not None and stack.frames[-1].user and _WRITES.search(e.code(stack.user_frame))
        return bool(in_line) or any(
            frame.file.endswith(("logging/__init__.py", "csv.py")) or "tensorboard/" in frame.file or "wandb/" in frame.file
            for frame in stack.frames
        )

    share = max(e.exclusive_share(stages.LOG), e.time_in(writing))
    if share < 0.04:
        return None
    evidence = [f"Logging took {units.share(share)} of the time."]
    if (calls := e.calls(stages.LOG)) and e.env_steps:
        evidence.append(f"{units.count(calls / e.env_steps)} calls per environment step.")
    return Suspicion(stages.LOG, tuple(evidence), e.seen(share, 0.9, 1.0), e.where(writing), covers=writing)


def without_logs(c: Context, f: Finding) -> list[Intervention]:
    return [
        *c.edited(f, "logging ten times rarer", rewrite.rarer_condition),
        *c.edited(f, "without that line", rewrite.left_out),
        switch("loggers write nothing", "logs-off", upper_bound=True),
    ]


LOGGER = Cause(
    id="logger-per-step",
    title="training stops to log, again and again",
    fix="log once per iteration, and flush rarely",
    rule=logger,
    confirm="log ten times rarer, or not at all",
    remedies=without_logs,
    sources=("wandb/wandb#950",),
    explains=("gil-locks",),
)


def evaluation(e: Evidence) -> Suspicion | None:
    """The evaluate stage, and stack samples in functions that say they evaluate, whether or not they play episodes."""

    def evaluating(stack: StackSample) -> bool:
        return stack.stage == stages.EVALUATE or _evaluator(e, stack) is not None

    def outermost(stack: StackSample) -> Frame | None:
        named = (frame for frame in stack.frames if frame.user and frame.name != "<module>")
        return _evaluator(e, stack) or next(named, stack.user_frame)

    # Episodes are known to be an evaluation after the fact: then the stage has the time, and the stack samples other names.
    share = e.exclusive_share(stages.EVALUATE) or e.time_in(evaluating)
    if share < 0.05:
        return None
    evidence = f"Evaluation took {units.share(share)} of the time."
    saved = e.saved(share, 0.85, 1.0, 0.93)
    return Suspicion(stages.EVALUATE, (evidence,), saved, e.where(evaluating, outermost), covers=evaluating)


def _evaluator(e: Evidence, stack: StackSample) -> Frame | None:
    """A frame of user code whose function says that it evaluates, outside of learning: there, actions are evaluated."""
    if stack.stage.startswith(stages.UPDATE):
        return None
    named = (frame for frame in stack.frames if frame.user and _EVALUATES.match(frame.name))
    return next((frame for frame in named if not _evaluates_states(e, frame)), None)


def _evaluates_states(e: Evidence, frame: Frame) -> bool:
    """Whether a function is given nothing but states: a search asks it for their values, or for its priors."""
    code = e.codes.get(frame.file)
    function = code.function(frame.line) if code else None
    if function is None:
        return False
    given = [argument.arg for argument in function.args.args if argument.arg not in ("self", "cls")]
    return bool(given) and all(_STATES.fullmatch(name) for name in given)


def rarer_evaluation(c: Context, f: Finding) -> list[Intervention]:
    title = "evaluation ten times rarer"
    rarer = lambda old: f"{old} * 10"  # noqa: E731
    return [
        *c.edited(f, title, rewrite.rarer_condition),
        *c.edited(f, f"{c.function(f)} ten times rarer", rewrite.rarer, upper_bound=True),
        *c.edited_all(title, lambda code: rewrite.number(code, r"eval_(freq|every|interval)", None, rarer)),
        switch(title, "evaluation-rarer", upper_bound=True, times=10),
    ]


EVALUATION = Cause(
    id="eval-dominates",
    title="evaluation runs too often",
    fix="evaluate rarely, on few episodes, in parallel",
    rule=evaluation,
    confirm="evaluation ten times rarer",
    remedies=rarer_evaluation,
    sources=("keraJLi/rejax#13", "swirl-uk/robobase#12"),
)


def checkpoint(e: Evidence) -> Suspicion | None:
    """The checkpoint stage, and stack samples in functions that save."""

    def saving(stack: StackSample) -> bool:
        packing = set() if stack.stage.startswith(stages.COLLECT) else {"dump", "dumps"}  # messages to workers are packed too
        saves = any(frame.name in _SAVES | packing and not frame.user for frame in stack.frames)
        return stack.stage == stages.CHECKPOINT or (saves and stack.stage not in (*ENVIRONMENT, stages.LOG))

    share = max(e.exclusive_share(stages.CHECKPOINT), e.time_in(saving))
    if share < 0.04:
        return None
    evidence = f"Checkpoints took {units.share(share)} of the time."
    return Suspicion(stages.CHECKPOINT, (evidence,), e.saved(share, 0.85, 1.0), e.where(saving), covers=saving)


def without_checkpoints(c: Context, f: Finding) -> list[Intervention]:
    return [
        *c.edited(f, "saving ten times rarer", rewrite.rarer_condition),
        switch("nothing is saved", "checkpoints-off", upper_bound=True),
    ]


CHECKPOINT = Cause(
    id="ckpt-replay",
    title="checkpoints are large or frequent",
    fix="save rarely, and the replay buffer not at all or by mmap",
    rule=checkpoint,
    confirm="save ten times rarer, or not at all",
    remedies=without_checkpoints,
    sources=("thu-ml/tianshou#260",),
)

CAUSES = (LOGGER, EVALUATION, CHECKPOINT)
