"""Rules about environments: what makes a step or a reset slow."""

import ast

from hotlap.causes.evidence import Evidence, Frame, Look
from hotlap.core import units
from hotlap.core.counts import SLEPT
from hotlap.core.paths import ENVIRONMENT, RESET, STEP, WAIT
from hotlap.record.finding import Finding, Saved
from hotlap.systems import has_kernel

HEAVY = 2e-3  # seconds: a step from which one speaks of a heavy environment
_DRAWS = ("render", "_render", "render_frame", "_render_frame", "_draw", "draw", "get_image", "_get_image")


def realtime_throttle(e: Evidence) -> Finding | None:
    """Seconds in `time.sleep` inside steps, in the script or in its workers."""
    slept = e.count(f"{SLEPT}@{STEP}") / e.wall if e.wall else 0.0
    of_what = "of the time"
    if e.workers:
        rows = list(e.workers["each"].values())
        slept = max(slept, e.own_share(STEP, WAIT) * max((row.get("slept_share", 0.0) for row in rows), default=0.0))
        of_what = "of the time, in worker processes"
    if slept < 0.03:
        return None
    asleep = lambda look: look.stage in ENVIRONMENT and "sleep" in e.code(look.users)  # noqa: E731
    said = f"Environments slept for {units.share(slept)} {of_what} (time.sleep)."
    saved = Saved(slept, 0.97 * slept, slept + 0.45 * (1 - slept))  # a core that sleeps all the time wakes up cold
    return Finding("env-realtime-throttle", STEP, (said,), saved, e.where(asleep))


def render(e: Evidence) -> Finding | None:
    """Samples in functions that draw, during collection."""

    def drawing(look: Look) -> bool:
        return any(f.name in _DRAWS or "pygame/" in f.file for f in look.below_step()) or (
            look.stage.startswith("collect") and any(f.name in _DRAWS for f in look.frames)
        )

    share = e.time_in(drawing)
    if share < 0.03:
        return None
    said = f"Drawing frames took {units.share(share)} of the time during collection."
    return Finding("env-render", STEP, (said,), e.seen(share, 0.95, 1.0), e.where(drawing))


def pandas_index(e: Evidence) -> Finding | None:
    """Samples inside pandas, in steps of environments."""

    def looking_up(look: Look) -> bool:
        return look.stage in ENVIRONMENT and any("pandas/" in frame.file for frame in look.frames)

    share = e.time_in(looking_up)
    if share < 0.03:
        return None
    said = f"pandas took {units.share(share)} of the time, inside steps of environments."
    return Finding("env-pandas-index", STEP, (said,), e.seen(share, 0.9, 1.0), e.where(looking_up))


def deepcopy(e: Evidence) -> Finding | None:
    """Samples inside `copy.deepcopy`."""

    def copying(look: Look) -> bool:
        """Called by the user's own code: what a library copies is its own affair."""
        names = [frame.name == "deepcopy" and frame.file.endswith("copy.py") for frame in look.frames]
        return True in names[1:] and look.frames[names.index(True) - 1].own

    share = e.time_in(copying)
    if share < 0.03:
        return None
    said = f"copy.deepcopy took {units.share(share)} of the time."
    return Finding("env-deepcopy", STEP, (said,), e.seen(share, 0.8, 1.0), e.where(copying))


def slow_reset(e: Evidence) -> Finding | None:
    """Resets take a fifth of what environments take, or more."""
    share, part, length = e.own_share(RESET), e.counters.get("reset_share") or 0.0, e.counters.get("episode_length")
    if share < 0.05 or part < 0.2:
        return None
    said = [f"Resets took {units.share(share)} of the time, {units.share(part)} of what environments took."]
    if length:
        said.append(f"An episode lasts {length:.0f} steps.")
    resetting = lambda look: look.stage == RESET  # noqa: E731
    return Finding("env-slow-reset", RESET, tuple(said), e.saved(share, 0.75, 1.0, 0.93), e.where(resetting))


def wrapper_tax(e: Evidence) -> Finding | None:
    """Samples in wrappers themselves, not in what they wrap: as much as the environment takes, or nearly."""

    def in_wrapper(look: Look) -> bool:
        if look.stage not in ENVIRONMENT:
            return False
        return any(_is_wrapper(e, frame.file, frame.line) for frame in _innermost_part(look))

    share, env = e.time_in(in_wrapper), e.own_share(STEP, RESET)
    if share < 0.08 or share < 0.4 * env:
        return None
    said = (
        f"Wrappers took {units.share(share)} of the time; the environment inside them {units.share(max(env - share, 0.0))}.",
    )
    chains = [" > ".join(env["chain"]) for env in e.facts.get("environments", [])][:1]
    where = e.where(in_wrapper, lambda look: next((f for f in reversed(look.frames) if f.own), None))
    return Finding("env-wrapper-tax", STEP, (*said, *chains), e.seen(share, 0.7, 1.0), where)


def _innermost_part(look: Look) -> tuple[Frame, ...]:
    """The frames from the innermost `step`, `reset` or wrapper's method on: whose time it is."""
    for place in range(len(look.frames) - 1, -1, -1):
        if look.frames[place].name in (
            "step",
            "reset",
            "observation",
            "reward",
            "action",
            "_step",
            "_call",
            "_reset",
            "forward",
        ):
            return look.frames[place : place + 1]
    return ()


def _is_wrapper(e: Evidence, file: str, line: int) -> bool:
    if "gymnasium/wrappers" in file or "torchrl/envs/transforms" in file:
        return True
    code = e.codes.get(file)
    found = code.class_of(line) if code else None
    if found is None:
        return False
    bases = [ast.unparse(base) for base in found.bases]
    return any("Wrapper" in base or "Transform" in base for base in bases)


def python_loop(e: Evidence) -> Finding | None:
    """Samples in lines of an environment that a loop (or a recursion) of the user's own code repeats."""

    def looping(look: Look) -> bool:
        if look.stage not in ENVIRONMENT:
            return False
        if look.native > 0.5 * look.seconds:  # the loop waits for a library that does the work
            return False
        below = [frame for frame in look.below_step() if frame.own]
        names = [(frame.file, frame.name) for frame in below]
        return any(e.loops(frame) for frame in below) or len(set(names)) < len(names)

    share = e.time_in(looping)
    if e.is_system:
        share = e.own_share(STEP, RESET) if has_kernel(e.run.header["target"]) and not e.config["turbo"] else 0.0
    if share < 0.05:
        return None
    number = f"{e.num_envs} environments" if e.num_envs > 1 else "one environment"
    said = f"Python loops inside environments took {units.share(share)} of the time ({number}, one core)."
    return Finding("env-python-loop", STEP, (said,), e.seen(share, 0.6, 1.0, 0.88), e.where(looping))


def jax_unjitted(e: Evidence) -> Finding | None:
    """Samples in JAX's dispatch, inside steps."""

    def dispatching(look: Look) -> bool:
        return look.stage in ENVIRONMENT and any("jax/_src" in frame.file for frame in look.frames)

    share = e.time_in(dispatching)
    if share < 0.1:
        return None
    said = f"JAX dispatched single operations for {units.share(share)} of the time, inside steps."
    return Finding("jax-unjitted-step", STEP, (said,), Saved(0.7 * share, 0.3 * share, share), e.where(dispatching))
