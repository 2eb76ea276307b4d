"""How experience is stored and drawn again."""

import ast
import re
from collections import defaultdict
from collections.abc import Sequence
from enum import Enum

from hotlap.causes.cause import Cause, Saved, Suspicion
from hotlap.causes.drop_ins import ring_of_arrays
from hotlap.causes.evidence import Evidence
from hotlap.causes.remedy import Context
from hotlap.causes.stacks import StackSample
from hotlap.core import stages, units
from hotlap.core.counts import ENV_STEPS, UPDATES
from hotlap.core.paths import STORE
from hotlap.interventions import batching, rewrite
from hotlap.interventions.code import Code
from hotlap.interventions.intervention import Intervention
from hotlap.record.finding import Finding
from hotlap.record.lines import TRACED
from hotlap.record.stacks import Frame

_READS = re.compile(r"\.(item|numpy|cpu|tolist|clone)\(\)|\bint\(|\bfloat\(|\bbool\(")
_TENSORS = re.compile(r"\b(torch\.)?(tensor|as_tensor|Tensor|FloatTensor|LongTensor|stack)\(")
_DRAWS = re.compile(r"random\.sample\(|\bchoice\(.*replace\s*=\s*False|\bpermutation\(|\brandperm\(")
_SCANS = ("_get_stop_and_length", "_find_start_stop_traj")  # of TorchRL's samplers of slices
TOO_SLOW = 0.08  # share of the time of one line that makes a tensor: no single array takes so long
_CAPACITY = r"buffer_?size|capacity|replay_?size|memory_?size|max_?len"


def _inner_loop(e: Evidence, frames: Sequence[Frame]) -> ast.AST | None:
    """The loop around the line of the last of these frames, if it is one inside the loop over steps: over environments, or over
    a batch. The loop over steps may be in the same function or in one that called it."""
    *callers, frame = frames
    loops = e.loops(frame)
    if not loops or not isinstance(loops[-1], ast.For | ast.ListComp | ast.GeneratorExp):
        return None
    if len(loops) < 2 and not any(e.loops(caller) for caller in callers):
        return None
    return None if ".step(" in e.codes[frame.file].source(loops[-1]) else loops[-1]  # that is the loop over steps


def push_item(e: Evidence) -> Suspicion | None:
    """Stack samples in a loop over environments that stores, or reads numbers out of tensors."""
    if e.num_envs < 2:
        return None

    def pushing(stack: StackSample) -> bool:
        if stack.stage not in (STORE, stages.SAMPLE):  # where updates follow at once, only the code tells the two apart
            return False
        frames = [frame for frame in stack.frames if frame.user]
        for place, frame in enumerate(frames):
            if (loop := _inner_loop(e, frames[: place + 1])) is not None:
                reads = bool(_READS.search(e.codes[frame.file].source(loop)))
                alone = len(e.loops(frame)) < 2  # then it may as well run over the fields of a transition
                if (reads and (not alone or _over_rows(loop))) or (stack.stage == STORE and not alone):
                    return True
        return False

    share = e.time_in(pushing)
    if share < 0.05:
        return None
    evidence = [f"Storing transitions one by one took {units.share(share)} of the time ({e.num_envs} environments)."]
    reads = e.counters.syncs_by_stage.get(STORE, 0.0)
    steps = sum(sample.counts.get(ENV_STEPS, 0) for sample in e.run.phase(TRACED))
    if steps and reads:
        evidence.append(f"It reads {reads / steps:.1f} numbers out of tensors per environment step.")
    return Suspicion(STORE, tuple(evidence), e.seen(share, 0.85, 1.0, 0.92), e.where(pushing), covers=pushing)


def _over_rows(loop: ast.AST) -> bool:
    """Whether a loop runs over the rows of something, rather than over its fields."""
    return isinstance(loop, ast.For) and bool(re.search(r"\b(range|zip|enumerate)\(", ast.unparse(loop.iter)))


def batched_pushes(c: Context, f: Finding) -> list[Intervention]:
    return [
        *c.edited(f, "transitions stored in one go", batching.batched_pushes),
        *c.edited(f, "numbers read in one go before the loop", rewrite.hoisted_items),
        *c.edited(f, "the loop skipped", rewrite.skipped_loop, upper_bound=True),
    ]


PUSH_ITEM = Cause(
    id="push-item-sync",
    title="transitions are stored one by one, each number read out of a tensor by itself",
    fix="copy the whole batch once per vector step, into arrays",
    rule=push_item,
    confirm="one batched copy",
    remedies=batched_pushes,
    sources=("TorchTrade/torchtrade#27", "S3"),
    explains=("hidden-sync",),
)


def deque_sampling(e: Evidence) -> Suspicion | None:
    """Stack samples in `random.sample`, in lines that draw without replacement or that index a deque, before updates."""

    def drawing(stack: StackSample) -> bool:
        return stack.stage in (stages.SAMPLE, "") and (
            any(frame.file.endswith("random.py") and frame.name in ("sample", "choices") for frame in stack.frames)
            or bool(_DRAWS.search(e.code(stack.user_frame)))
            or _indexes_deque(e, stack)
        )

    if (share := e.time_in(drawing)) < 0.05:
        return None
    share = max(share, 0.95 * e.exclusive_share(stages.SAMPLE))  # picking elements out of a list goes with it
    evidence = [f"Drawing batches took {units.share(share)} of the time, element by element."]
    if (grown := e.growth((stages.SAMPLE,), UPDATES)) > 1.15:
        evidence.append(f"It grew {grown:.1f} times during the run.")
    return Suspicion(stages.SAMPLE, tuple(evidence), e.seen(share, 0.82, 1.0, 0.9), e.where(drawing), covers=drawing)


def _indexes_deque(e: Evidence, stack: StackSample) -> bool:
    """Whether the line takes elements of something that its file makes as a deque."""
    frame = stack.user_frame
    if frame is None or frame.file not in e.codes:
        return False
    code = e.codes[frame.file]
    names = {
        ast.unparse(target).rpartition(".")[2]
        for node in code.walk(ast.Assign)
        if isinstance(node, ast.Assign) and "deque(" in code.source(node.value)
        for target in node.targets
    }
    return any(f"{name}[" in code.line(frame.line) for name in names)


DEQUE_SAMPLING = Cause(
    id="deque-sampling",
    title="sampling walks through a deque, or draws without replacement from a huge range",
    fix="a ring of arrays (hotlap.fast.replay), and random indices drawn in one call",
    rule=deque_sampling,
    confirm="a ring of arrays that draws the same transitions, or recorded batches",
    remedies=ring_of_arrays,
    sources=("chainer/chainerrl#131", "sdpkjc/abcdrl#31"),
    explains=("list-to-tensor", "sampler-capacity"),
)


def sampler_capacity(e: Evidence) -> Suspicion | None:
    """Drawing a batch takes longer and longer; or stack samples where a sampler looks through all of its storage."""

    def scanning(stack: StackSample) -> bool:
        return any(frame.name in _SCANS and not frame.user for frame in stack.frames)

    if (scanned := e.time_in(scanning)) >= 0.05:
        evidence = f"The sampler looked for trajectories in its whole storage for {units.share(scanned)} of the time."
        fix = "a sampler that keeps what it found until the storage changes: SliceSampler(cache_values=True)"
        saved = e.seen(scanned, 0.8, 1.0, 0.9)
        return Suspicion(stages.SAMPLE, (evidence,), saved, e.where(scanning), covers=scanning, fix=fix)
    share, grown = e.exclusive_share(stages.SAMPLE), e.growth((stages.SAMPLE,), UPDATES)
    if share < 0.1 or grown < 1.3:
        return None
    evidence = f"Drawing a batch takes {units.share(share)} of the time, {grown:.1f} times what it took at the start."
    part = 1 - 1 / grown
    return Suspicion(stages.SAMPLE, (evidence,), Saved(share * (part + 1) / 2, share * part / 2, share))


def small_buffer(c: Context, f: Finding) -> list[Intervention]:
    """Shows whether the buffer's size costs time; not a fix, because it drops transitions."""
    return c.divided(_CAPACITY, 100, "a hundredth of the buffer", upper_bound=True)


SAMPLER_CAPACITY = Cause(
    id="sampler-capacity",
    title="drawing a batch takes longer the fuller the buffer is",
    fix="a sampler that does not scan its storage, or a newer version of it",
    rule=sampler_capacity,
    confirm="a hundredth of the buffer",
    remedies=small_buffer,
    sources=("pytorch/rl#2669",),
)


def list_to_tensor(e: Evidence) -> Suspicion | None:
    """Stack samples in lines that make a tensor of a list; one array is copied at once, and is not meant."""
    known: dict[Frame, Made] = {}

    def made(stack: StackSample) -> Made:
        innermost = stack.frames[-1] if stack.frames else None
        if innermost is None or not innermost.user:
            return Made.NOTHING
        if innermost not in known:
            known[innermost] = _made_of(e, innermost)
        return known[innermost]

    unclear: defaultdict[Frame, float] = defaultdict(float)  # copying an array is never that slow
    for stack in e.stack_samples:
        if made(stack) is Made.UNCLEAR:
            unclear[stack.frames[-1]] += e.weight(stack)

    def making(stack: StackSample) -> bool:
        return made(stack) is Made.LIST or (bool(stack.frames) and unclear.get(stack.frames[-1], 0.0) > TOO_SLOW)

    share = e.time_in(making)
    if share < 0.05:
        return None
    evidence = f"Making tensors from lists took {units.share(share)} of the time."
    saved = e.seen(share, 0.6, 0.97, 0.86)
    return Suspicion(e.stage_of(making), (evidence,), saved, e.where(making), covers=making)


class Made(Enum):
    """What a line makes a tensor of."""

    LIST = "list"
    UNCLEAR = "unclear"
    NOTHING = "nothing"  # or an array


def _made_of(e: Evidence, frame: Frame) -> Made:
    code = e.codes.get(frame.file)
    statement = code.statement(frame.line) if code else None
    if code is None or isinstance(statement, ast.For | ast.While | ast.If | ast.With | ast.FunctionDef | ast.ClassDef | None):
        return Made.NOTHING
    kinds = [
        _kind(code, node.args[0], frame.line)
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and node.args and _TENSORS.match(ast.unparse(node.func) + "(")
        if ast.unparse(node.func) != "torch.stack"
    ]
    return next((kind for kind in (Made.LIST, Made.UNCLEAR) if kind in kinds), Made.NOTHING)


def _kind(code: Code, value: ast.expr, line: int) -> Made:
    """Whether an expression is a list: as it is written, or where its name is set."""
    text = ast.unparse(value)
    if "np." in text or ".numpy(" in text or isinstance(value, ast.Constant):
        return Made.NOTHING
    if isinstance(value, ast.List | ast.ListComp | ast.Tuple | ast.GeneratorExp) or re.match(r"(list|tuple|zip|map)\(", text):
        return Made.LIST
    if isinstance(value, ast.Name):
        return _kind_of_name(code, value.id, line)
    return Made.UNCLEAR if isinstance(value, ast.Call | ast.Subscript | ast.Attribute) else Made.NOTHING


def _kind_of_name(code: Code, name: str, line: int) -> Made:
    scope = code.function(line) or code.tree
    if f"{name}.append(" in code.source(scope):
        return Made.LIST
    kinds = set()
    for node in ast.walk(scope):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.For) else []
        value = node.value if isinstance(node, ast.Assign) else getattr(node, "iter", None)
        if value is None or not any(isinstance(part, ast.Name) and part.id == name for t in targets for part in ast.walk(t)):
            continue
        text = ast.unparse(value)
        if re.match(r"(zip|map|list|random\.sample)\(", text) or isinstance(value, ast.List | ast.ListComp):
            kinds.add(Made.LIST)
        elif re.search(r"\bnp\.|\.(reset|step)\(", text):
            kinds.add(Made.NOTHING)
        else:
            kinds.add(Made.UNCLEAR)
    return next((kind for kind in (Made.LIST, Made.UNCLEAR) if kind in kinds), Made.NOTHING if kinds else Made.UNCLEAR)


def arrays_first(c: Context, f: Finding) -> list[Intervention]:
    return c.edited(f, "lists become arrays first", rewrite.stacked_tensor)


LIST_TO_TENSOR = Cause(
    id="list-to-tensor",
    title="tensors are made from lists of arrays, element by element",
    fix="np.stack or np.asarray first, then torch.from_numpy",
    rule=list_to_tensor,
    confirm="stack the arrays first",
    remedies=arrays_first,
    sources=("facebook/Ax#4798", "pfnet/pfrl#189"),
)


def replay_swap(e: Evidence) -> Suspicion | None:
    """Pages come from the disk, and memory is nearly as full as the machine or the container allows."""
    faults, peak, limit = e.counters.disk_faults_per_s, e.profile.memory.peak_bytes, e.machine.memory_limit
    if faults < 50 or (limit and peak < 0.7 * limit):
        return None
    share = e.exclusive_share(STORE, stages.SAMPLE)
    evidence = f"{faults:.0f} pages per second come from the disk; memory peaks at {units.size(peak)} of {units.size(limit)}."
    return Suspicion(stages.SAMPLE, (evidence,), Saved(0.5 * share, 0.1 * share, share))


def smaller_buffer(c: Context, f: Finding) -> list[Intervention]:
    return c.divided(_CAPACITY, 4, "a quarter of the buffer")


REPLAY_SWAP = Cause(
    id="replay-swap",
    title="the replay buffer does not fit into memory",
    fix="uint8 observations, each frame once, a smaller buffer",
    rule=replay_swap,
    confirm="a quarter of the buffer",
    remedies=smaller_buffer,
    sources=("rail-berkeley/softlearning#65",),
    changes_learning=True,
)


def replay_h2d(e: Evidence) -> Suspicion | None:
    """Copies to the device while batches are drawn."""
    path = f"{stages.SAMPLE}/{stages.TRANSFER}"
    share = e.exclusive_share(path)
    if share < 0.03:
        return None
    evidence = f"Copying batches to the device took {units.share(share)} of the time."
    return Suspicion(path, (evidence,), e.saved(share, 0.4, 1.0))


REPLAY_H2D = Cause(
    id="replay-h2d",
    title="every batch is copied to the GPU when it is needed",
    fix="keep the buffer on the device, or copy the next batch while this one is used",
    rule=replay_h2d,
    sources=("laboroai/border#44", "cpnota/autonomous-learning-library#186"),
)

CAUSES = (
    PUSH_ITEM,
    DEQUE_SAMPLING,
    SAMPLER_CAPACITY,
    LIST_TO_TENSOR,
    REPLAY_SWAP,
    REPLAY_H2D,
)
