"""The floor under the rules: a line or a function of user code that takes much of the time is named, whoever knows why."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from hotlap.causes.cause import NOTHING, Cause, Suspicion
from hotlap.causes.evidence import Evidence, Test
from hotlap.causes.remedy import Context, recorded
from hotlap.causes.stacks import StackSample
from hotlap.causes.trips import cost_of
from hotlap.core import stages, units
from hotlap.core.paths import ENVIRONMENT, RESET, WAIT
from hotlap.interventions.intervention import Intervention
from hotlap.record.finding import Finding
from hotlap.record.stacks import Frame

LEAST = 0.15  # share of the time from which a line or a function is named
MOST_OF = 0.75  # of a function's time: one that calls another for this much only passes on
ENOUGH = 0.5  # of a place's time: a cause that saves this much explains it
NEARLY_ALL = 0.8  # of a stage's time: a cause that saves this much explains the stage
_WAITS = re.compile(r"sleep\(|\.(recv|wait|join|acquire|get|poll|select|result)\(")
_WHOLE_STAGES = (*stages.BESIDE, RESET)  # whose causes are about all that happens in them

Place = tuple[str, str]  # a file and a function in it


class Kind(Enum):
    """What a place does with its time, and what to try."""

    PYTHON = ("in Python itself", "do it for whole arrays at once (numpy, torch), compile it with Numba, or do it less often")
    NATIVE = ("in native code that it calls", "give it less to do or do it less often; run it in parallel if cores are idle")
    WAITING = ("waiting", "find out what it waits for; take it out of the training loop, or let it run beside it")

    def __init__(self, words: str, advice: str) -> None:
        self.words = words
        self.advice = advice


@dataclass(frozen=True)
class _Spot:
    """A function of user code, or a line of the training loop, with the stack samples that passed through it."""

    place: Place | Frame
    stacks: tuple[StackSample, ...]
    share: float


def hot_spot(e: Evidence) -> Suspicion | None:
    """A line or a function of user code takes 15% of the time or more, which no other cause explains, and which is not the
    network's passes, the optimizer's step or a library's environment."""
    return unexplained(e, ())


def unexplained(e: Evidence, suspicions: Sequence[Suspicion]) -> Suspicion | None:
    """The largest such place, given what the other rules suspect."""
    explained = [test for suspicion in suspicions for test in _explains(e, suspicion)]
    left = [
        stack
        for stack in e.stack_samples
        if stack.user_frame is not None and not _is_training(e, stack) and not any(test(stack) for test in explained)
    ]
    spot = _hottest(e, left)
    if spot is None or spot.share < LEAST:
        return None
    return _suspicion(e, spot)


def _is_training(e: Evidence, stack: StackSample) -> bool:
    """Whether it is what training is made of: a network's pass, gradients, an optimizer's step, a library's environment."""
    if stack.stage == WAIT or stack.learns():  # what it waits for is another process's work
        return True
    if stack.stage in ENVIRONMENT:
        return not any(frame.user for frame in stack.below_step())
    innermost = stack.user_frame
    if innermost is not None and innermost != stack.frames[-1] and e.runs_training(innermost):
        return True  # a framework does it
    return stack.native > 0.5 * stack.seconds and any("torch/nn/modules/" in frame.file for frame in stack.frames)


# -- what other causes explain --


def _explains(e: Evidence, suspicion: Suspicion) -> list[Test]:
    """Which stack samples a suspicion is about: those that its rule looked for, and what lies around them if that is little
    beside what it saves."""
    if suspicion.saved == NOTHING:
        return []
    stage, tests = suspicion.stage, [] if suspicion.covers is None else [suspicion.covers]
    if stage in _WHOLE_STAGES or suspicion.saved.value >= NEARLY_ALL * e.exclusive_share(stage):
        tests.append(lambda stack: stack.stage == stage)
    if suspicion.where is None:
        top = stage.partition("/")[0]
        inside = top if top in (stages.UPDATE, stages.SAMPLE) else stage
        around: Test = lambda stack: stack.stage == inside or stack.stage.startswith(f"{inside}/")  # noqa: E731
    else:
        file, _, line = suspicion.where.rpartition(":")
        function = _function(e, file, int(line))
        tests.append(lambda stack: _passes(stack, suspicion.where))
        around = lambda stack: any(_place(frame) == function for frame in stack.frames)  # noqa: E731
    return [*tests, around] if suspicion.saved.value >= ENOUGH * e.time_in(around) else tests


def _passes(stack: StackSample, where: str | None) -> bool:
    return any(f"{frame.file}:{frame.line}" == where for frame in stack.frames)


def _function(e: Evidence, file: str, line: int) -> Place | None:
    """The function around a line, as frames name it."""
    found = e.codes[file].function(line) if file in e.codes else None
    return (file, found.name) if found else None


# -- the place --


def _hottest(e: Evidence, stacks: Sequence[StackSample]) -> _Spot | None:
    """The function that training calls with the largest part of this time, or in it the one that does not pass it on."""
    outermost: defaultdict[Place | Frame, list[StackSample]] = defaultdict(list)
    for stack in stacks:
        called = _called(e, stack)
        innermost = stack.user_frame
        assert innermost is not None
        outermost[_place(called[0]) if called else innermost].append(stack)
    if not outermost:
        return None
    spots = [_Spot(place, tuple(inside), sum(map(e.weight, inside))) for place, inside in outermost.items()]
    spot = max(spots, key=lambda spot: spot.share)
    while (inner := _inner(e, spot)) is not None:
        spot = inner
    return spot


def _called(e: Evidence, stack: StackSample) -> list[Frame]:
    """The frames of user code below the training loop."""
    frames = [frame for frame in stack.frames if frame.user]
    below = stack.below_step() if stack.stage in ENVIRONMENT else ()
    last = max((place for place, frame in enumerate(frames) if frame not in below and e.drives(frame)), default=-1)
    return frames[last + 1 :]


def _place(frame: Frame) -> Place:
    return frame.file, frame.name


def _inner(e: Evidence, spot: _Spot) -> _Spot | None:
    """The function that this one calls for most of its time."""
    if isinstance(spot.place, Frame):
        return None
    inside: defaultdict[Place, list[StackSample]] = defaultdict(list)
    for stack in spot.stacks:
        places = [_place(frame) for frame in _called(e, stack)]
        after = places[places.index(spot.place) + 1 :]
        called = next((place for place in after if place != spot.place), None)
        if called is not None and spot.place not in after:  # a recursion stays what it is
            inside[called].append(stack)
    spots = [_Spot(place, tuple(found), sum(map(e.weight, found))) for place, found in inside.items()]
    largest = max(spots, key=lambda spot: spot.share, default=None)
    return largest if largest is not None and largest.share > MOST_OF * spot.share else None


# -- its words --


def _suspicion(e: Evidence, spot: _Spot) -> Suspicion:
    chosen = set(spot.stacks)
    line = _line(e, spot)
    where, kind = f"{line.file}:{line.line}", _kind(e, spot, line)
    name = "the line" if isinstance(spot.place, Frame) else f"{spot.place[1]}()"
    code = e.code(line)
    evidence = [f"{where}, {name}, took {units.share(spot.share)} of the time, mostly {kind.words}: {code}"]
    if (caller := _caller(e, spot)) is not None:
        evidence.append(f"The training loop calls it at {caller}.")
    if (cost := cost_of(e, lambda stack: next(e.work_loops(stack), None) if stack in chosen else None)) is not None:
        evidence.append(cost.sentence())
    evidence.append(f"Without it training would be {1 / (1 - min(spot.share, 0.98)):.2f}x as fast: an upper bound.")
    saved = NOTHING if kind is Kind.NATIVE else e.seen(spot.share, 0.3, 0.95, 0.65)
    return Suspicion(e.stage_of(chosen.__contains__), tuple(filter(None, evidence)), saved, where, fix=kind.advice)


def _line(e: Evidence, spot: _Spot) -> Frame:
    """The line of the place that most of its time passed through."""
    times: defaultdict[Frame, float] = defaultdict(float)
    for stack in spot.stacks:
        frames = [f for f in stack.frames if f == spot.place or _place(f) == spot.place]
        times[frames[-1]] += e.weight(stack)
    return max(times, key=lambda frame: times[frame])


def _kind(e: Evidence, spot: _Spot, line: Frame) -> Kind:
    seconds = sum(stack.seconds for stack in spot.stacks)
    waited = sum(stack.waited for stack in spot.stacks if _WAITS.search(e.code(stack.user_frame)))
    if waited > 0.5 * seconds:
        return Kind.WAITING
    return Kind.NATIVE if sum(stack.native for stack in spot.stacks) > 0.5 * seconds else Kind.PYTHON


def _caller(e: Evidence, spot: _Spot) -> str | None:
    """The line of the training loop from which most of the time was spent."""
    times: defaultdict[str, float] = defaultdict(float)
    for stack in spot.stacks:
        frames, called = [frame for frame in stack.frames if frame.user], _called(e, stack)
        if called and len(called) < len(frames):
            caller = frames[-len(called) - 1]
            times[f"{caller.file}:{caller.line}"] += e.weight(stack)
    return max(times, key=lambda where: times[where]) if times else None


def recorded_place(c: Context, f: Finding) -> list[Intervention]:
    """Only functions that training calls: recording the training loop itself would be no experiment."""
    file, _, line = (f.where or "").rpartition(":")
    frames = {
        frame for stack in c.evidence.stack_samples for frame in stack.frames if (frame.file, str(frame.line)) == (file, line)
    }
    return [] if any(c.evidence.drives(frame) for frame in frames) else recorded(c, f)


HOT_SPOT = Cause(
    id="hot-spot",
    title="one place in your code takes a large part of the time, and no other cause explains it",
    fix="by what it does: arrays instead of interpreted code, less or rarer work in native code, no waiting in the loop",
    rule=hot_spot,
    confirm="return recorded results of that function: an upper bound",
    remedies=recorded_place,
    sources=("AgileRL/AgileRL#340",),
)

CAUSES = (HOT_SPOT,)
