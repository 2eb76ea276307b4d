"""What makes a step or a reset of an environment slow."""

import ast
import re

from hotlap.causes.cause import Cause, Saved, Suspicion
from hotlap.causes.evidence import Evidence
from hotlap.causes.remedy import Context, recorded, switch
from hotlap.causes.stacks import StackSample
from hotlap.core import stages, units
from hotlap.core.counts import SLEPT
from hotlap.core.paths import ENVIRONMENT, RESET, STEP, WAIT
from hotlap.interventions import rewrite
from hotlap.interventions.intervention import Intervention
from hotlap.record.finding import Finding
from hotlap.record.stacks import Frame

_SLEEPS = re.compile(r"\bsleep\(|clock\.tick(_busy_loop)?\(|pygame\.time\.(wait|delay)\(")
_DRAWING = ("pygame/", "matplotlib/")  # packages
_DRAWS = ("render", "_render", "render_frame", "_render_frame", "get_image", "_get_image", "update_ui", "_update_ui", "imshow")
_MAY_DRAW = ("draw", "_draw")  # while collecting; a buffer draws batches
_VECTORS = ("torchrl/envs/batched_envs", "gymnasium/vector/", "gym/vector/", "common/vec_env/")  # files of vectors themselves
NEARLY = 0.67  # as much as the environment takes, from which wrappers take nearly as much
_PARTS = ("step", "reset", "observation", "reward", "action", "_step", "_call", "_reset", "forward")


def realtime_throttle(e: Evidence) -> Suspicion | None:
    """Seconds in `time.sleep` or a clock's tick: inside steps or beside them, in the script or in its workers."""

    def asleep(stack: StackSample) -> bool:
        return bool(_SLEEPS.search(e.code(stack.user_frame))) and stack.stage not in stages.BESIDE and not _polls(e, stack)

    sampled, stage = e.time_in(asleep), e.stage_of(asleep)
    slept = max(e.count(f"{SLEPT}@{STEP}") / e.wall if e.wall else 0.0, 0.0 if e.workers else sampled)
    whose = "The training loop" if sampled and stage not in ENVIRONMENT else "Environments"
    of_what = "of the time"
    if e.workers:
        most = max((row.slept_share for row in e.workers.each.values()), default=0.0)
        slept = max(slept, e.exclusive_share(STEP, WAIT) * most)
        of_what = "of the time, in worker processes"
    if slept < 0.03:
        return None
    evidence = f"{whose} slept for {units.share(slept)} {of_what} (time.sleep or a clock's tick)."
    saved = Saved(slept, 0.97 * slept, slept + 0.45 * (1 - slept))  # a core that sleeps all the time wakes up cold
    return Suspicion(stage if sampled else STEP, (evidence,), saved, e.where(asleep), covers=asleep)


def _polls(e: Evidence, stack: StackSample) -> bool:
    """Whether a sleep is the body of a loop that waits for something."""
    loops = e.loops(stack.user_frame) if stack.user_frame else []
    return bool(loops) and isinstance(loops[-1], ast.While) and len(loops[-1].body) == 1


def without_sleep(c: Context, f: Finding) -> list[Intervention]:
    return [
        *c.edited(f, "without the sleep", rewrite.left_out),
        switch("time.sleep skipped", "sleep-off", upper_bound=True),
    ]


REALTIME_THROTTLE = Cause(
    id="env-realtime-throttle",
    title="the script sleeps to keep pace with a clock",
    fix="run the simulator without its clock: drop the sleep, or run headless and faster than real time",
    rule=realtime_throttle,
    confirm="skip the sleep",
    remedies=without_sleep,
    sources=("softbankrobotics-research/qibullet#52",),
    explains=("serial-heavy-env", "too-few-envs", "vec-straggler", "subproc-cheap-env", "env-oversubscribe"),
)


def render(e: Evidence) -> Suspicion | None:
    """Stack samples in functions that draw, outside of evaluations."""

    def drawing(stack: StackSample) -> bool:
        if stack.stage in stages.BESIDE or _SLEEPS.search(e.code(stack.user_frame)):
            return False
        names = (*_DRAWS, *_MAY_DRAW) if stack.stage.startswith(stages.COLLECT) else _DRAWS
        return any(frame.name in names or any(package in frame.file for package in _DRAWING) for frame in stack.frames)

    share = e.time_in(drawing)
    if share < 0.03:
        return None
    evidence = f"Drawing frames took {units.share(share)} of the time while training."
    return Suspicion(e.stage_of(drawing), (evidence,), e.seen(share, 0.95, 1.0), e.where(drawing), covers=drawing)


def without_render(c: Context, f: Finding) -> list[Intervention]:
    return [switch("nothing is drawn", "render-off", upper_bound=True)]


RENDER = Cause(
    id="env-render",
    title="frames are drawn on every step",
    fix="render only when somebody looks: create the environment without a render mode, or draw on demand",
    rule=render,
    confirm="leave rendering out",
    remedies=without_render,
    sources=("stepjam/RLBench#36",),
    explains=("env-python-loop", "serial-heavy-env", "env-wrapper-tax", "cv2-threads"),
)


def pandas_index(e: Evidence) -> Suspicion | None:
    """Stack samples inside pandas, wherever training looks something up in it."""

    def looking_up(stack: StackSample) -> bool:
        inside = [place for place, frame in enumerate(stack.frames) if "pandas/" in frame.file]
        asks = bool(inside) and stack.frames[max(inside[0] - 1, 0)].user  # a library's tables are its own affair
        return asks and stack.stage not in beside

    beside = (*stages.BESIDE, RESET) if _resets_are_slow(e) else stages.BESIDE  # a reset that makes tables is slow as a whole
    if e.time_in(looking_up) < 0.03:
        return None
    lines = {frame for stack in e.stack_samples if looking_up(stack) and (frame := stack.user_frame)}
    share = e.time_in(lambda stack: looking_up(stack) or stack.user_frame in lines)  # with what they make of the result
    stage = e.stage_of(looking_up)
    evidence = f"Lines that look something up with pandas took {units.share(share)} of the time, mostly in {stage}."
    return Suspicion(stage, (evidence,), e.seen(share, 0.9, 1.0), e.where(looking_up), covers=looking_up)


PANDAS_INDEX = Cause(
    id="env-pandas-index",
    title="rows of a pandas table are looked up one by one",
    fix="copy the table into a float32 array once, and index that",
    rule=pandas_index,
    confirm="return a recorded row",
    remedies=recorded,
    sources=("triqbit/mt5-ai-xauusd-trader#613",),
    explains=("env-python-loop", "serial-heavy-env"),
)


def deepcopy(e: Evidence) -> Suspicion | None:
    """Stack samples inside `copy.deepcopy`, called by user code."""

    def copying(stack: StackSample) -> bool:
        names = [frame.name == "deepcopy" and frame.file.endswith("copy.py") for frame in stack.frames]
        return True in names[1:] and stack.frames[names.index(True) - 1].user  # what a library copies is its own affair

    share = e.time_in(copying)
    if share < 0.03:
        return None
    evidence = f"copy.deepcopy took {units.share(share)} of the time."
    return Suspicion(e.stage_of(copying), (evidence,), e.seen(share, 0.88, 1.0, 0.92), e.where(copying), covers=copying)


DEEPCOPY = Cause(
    id="env-deepcopy",
    title="state is copied with deepcopy",
    fix="copy the arrays that change, by name",
    rule=deepcopy,
    confirm="return a recorded copy",
    remedies=recorded,
    sources=("fedden/poker_ai#102",),
    explains=("env-python-loop", "serial-heavy-env"),
)


def _resets_are_slow(e: Evidence) -> bool:
    return e.exclusive_share(RESET) >= 0.05 and (e.counters.reset_share or 0.0) >= 0.2


def slow_reset(e: Evidence) -> Suspicion | None:
    """Resets take a fifth of what environments take, or more."""
    share, part, length = e.exclusive_share(RESET), e.counters.reset_share or 0.0, e.counters.episode_length
    if not _resets_are_slow(e):
        return None
    evidence = [f"Resets took {units.share(share)} of the time, {units.share(part)} of what environments took."]
    if length:
        evidence.append(f"An episode lasts {length:.0f} steps.")
    where = e.where(lambda stack: stack.stage == RESET)
    return Suspicion(RESET, tuple(evidence), e.saved(share, 0.88, 1.0, 0.97), where)


SLOW_RESET = Cause(
    id="env-slow-reset",
    title="beginning an episode costs far more than playing it",
    fix="build what does not change once, keep it, and restore a saved state in reset",
    rule=slow_reset,
    confirm="reset from a cached state",
    remedies=recorded,
    sources=("google-deepmind/lab#152", "bulletphysics/bullet3#1305"),
    explains=("env-python-loop", "serial-heavy-env"),
)


def wrapper_tax(e: Evidence) -> Suspicion | None:
    """Stack samples in wrappers themselves, not in what they wrap: nearly as much as the environment takes, or more."""

    def in_wrapper(stack: StackSample) -> bool:
        frame = _innermost_part(stack)
        return stack.stage in ENVIRONMENT and frame is not None and _is_wrapper(e, frame.file, frame.line)

    def in_vector(stack: StackSample) -> bool:
        frame = _innermost_part(stack)
        return stack.stage in ENVIRONMENT and frame is not None and any(part in frame.file for part in _VECTORS)

    share = e.time_in(in_wrapper)
    inside = max(e.exclusive_share(STEP, RESET) - share - e.time_in(in_vector), 0.0)
    if share < 0.08 or share < NEARLY * inside:
        return None
    evidence = f"Wrappers took {units.share(share)} of the time; the environment inside them {units.share(inside)}."
    chains = [f"{' > '.join(chain.chain)} ({chain.environments} in all)" for chain in e.description.environments[:1]]
    return Suspicion(STEP, (evidence, *chains), e.seen(share, 0.75, 1.0, 0.85), e.where(in_wrapper), covers=in_wrapper)


def _innermost_part(stack: StackSample) -> Frame | None:
    """The innermost `step`, `reset` or wrapper's method: whose time it is."""
    return next((frame for frame in reversed(stack.frames) if frame.name in _PARTS), None)


def _is_wrapper(e: Evidence, file: str, line: int) -> bool:
    if "gymnasium/wrappers" in file or "torchrl/envs/transforms" in file:
        return True
    code = e.codes.get(file)
    owner = code.class_of(line) if code else None
    return owner is not None and any(kind in ast.unparse(base) for base in owner.bases for kind in ("Wrapper", "Transform"))


def without_wrappers(c: Context, f: Finding) -> list[Intervention]:
    names = sorted(
        {
            node.name
            for code in c.codes.values()
            for node in ast.walk(code.tree)
            if isinstance(node, ast.ClassDef) and any("Wrapper" in ast.unparse(base) for base in node.bases)
        }
    )
    return [switch(f"without {', '.join(names)}", "peel", upper_bound=True, names=names)] if names else []


WRAPPER_TAX = Cause(
    id="env-wrapper-tax",
    title="wrappers around the environment cost more than the environment",
    fix="drop wrappers that nothing needs, and fuse the others into one",
    rule=wrapper_tax,
    confirm="peel the wrappers off",
    remedies=without_wrappers,
    sources=("pytorch/rl#1247",),
    explains=("env-python-loop", "serial-heavy-env"),
)


def jax_unjitted(e: Evidence) -> Suspicion | None:
    """Stack samples in JAX's dispatch, inside steps."""

    def dispatching(stack: StackSample) -> bool:
        return stack.stage in ENVIRONMENT and any("jax/_src" in frame.file for frame in stack.frames)

    share = e.time_in(dispatching)
    if share < 0.1:
        return None
    evidence = f"JAX dispatched single operations for {units.share(share)} of the time, inside steps."
    return Suspicion(STEP, (evidence,), Saved(0.7 * share, 0.3 * share, share), e.where(dispatching), covers=dispatching)


def recorded_step(c: Context, f: Finding) -> list[Intervention]:
    """Only where the environment is user code: the function that calls a library's environment is the training loop."""
    stacks = c.evidence.stack_samples
    inside = {f"{frame.file}:{frame.line}" for stack in stacks for frame in stack.below_step() if frame.user}
    return recorded(c, f) if f.where in inside else []


JAX_UNJITTED = Cause(
    id="jax-unjitted-step",
    title="environment steps of JAX are dispatched operation by operation",
    fix="compile the rollout: jax.jit around a lax.scan",
    rule=jax_unjitted,
    confirm="return recorded results of the function that dispatches them",
    remedies=recorded_step,
    sources=("dunnolab/xland-minigrid#17",),
)

CAUSES = (
    REALTIME_THROTTLE,
    RENDER,
    PANDAS_INDEX,
    DEEPCOPY,
    SLOW_RESET,
    WRAPPER_TAX,
    JAX_UNJITTED,
)
