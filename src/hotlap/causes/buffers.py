"""Rules about storing experience, drawing it again, and turning it into targets."""

import ast
import re
from collections.abc import Sequence

from hotlap.causes.evidence import Evidence, Frame, Look
from hotlap.core import stages, units
from hotlap.core.paths import STORE
from hotlap.record.finding import Finding, Saved

_READS = re.compile(r"\.(item|numpy|cpu|tolist|clone)\(\)|\bint\(|\bfloat\(|\bbool\(")
_TENSORS = re.compile(r"\b(torch\.)?(tensor|as_tensor|Tensor|FloatTensor|LongTensor|stack)\(")
_TREE = re.compile(r"tree|prior|propagat|retriev|segment|sum_?tree", re.IGNORECASE)


def push_item(e: Evidence) -> Finding | None:
    """Samples in a loop over environments that stores, or reads numbers out of tensors."""
    if e.num_envs < 2:
        return None

    def pushing(look: Look) -> bool:
        if look.stage not in (STORE, stages.SAMPLE):  # where updates follow at once, only the code tells the two apart
            return False
        own = [frame for frame in look.frames if frame.own]
        for place, frame in enumerate(own):
            if (loop := _inner_loop(e, own[: place + 1])) is not None:
                reads = bool(_READS.search(e.codes[frame.file].source(loop)))
                alone = len(e.loops(frame)) < 2  # then it may as well run over the fields of a transition
                if (reads and (not alone or _over_rows(loop))) or (look.stage == STORE and not alone):
                    return True
        return False

    share = e.time_in(pushing)
    if share < 0.05:
        return None
    reads = e.counters.get("syncs_by_stage", {}).get(STORE, 0.0)
    traced = sum(s.counts.get("env_steps", 0) for s in e.run.phase("traced"))
    said = [f"Storing transitions one by one took {units.share(share)} of the time ({e.num_envs} environments)."]
    if traced and reads:
        said.append(f"It reads {reads / traced:.1f} numbers out of tensors per environment step.")
    return Finding("push-item-sync", STORE, tuple(said), e.seen(share, 0.75, 1.0, 0.92), e.where(pushing))


def _over_rows(loop: ast.AST) -> bool:
    """Whether a loop runs over the rows of something, rather than over its fields."""
    return isinstance(loop, ast.For) and bool(re.search(r"\b(range|zip|enumerate)\(", ast.unparse(loop.iter)))


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


def deque_sampling(e: Evidence) -> Finding | None:
    """Samples in `random.sample`, or in lines that index a deque, before updates."""

    def drawing(look: Look) -> bool:
        return look.stage in (stages.SAMPLE, "") and (
            any(frame.file.endswith("random.py") and frame.name in ("sample", "choices") for frame in look.frames)
            or "random.sample(" in e.code(look.users)
            or _indexes_deque(e, look)
        )

    if (share := e.time_in(drawing)) < 0.05:
        return None
    share = max(share, 0.95 * e.own_share(stages.SAMPLE))  # picking elements out of a list goes with it
    said = [f"Drawing batches took {units.share(share)} of the time, element by element."]
    if (grown := e.growth((stages.SAMPLE,), "updates")) > 1.15:
        said.append(f"It grew {grown:.1f} times during the run.")
    return Finding("deque-sampling", stages.SAMPLE, tuple(said), e.seen(share, 0.7, 1.0, 0.88), e.where(drawing))


def _indexes_deque(e: Evidence, look: Look) -> bool:
    """Whether the line takes elements of something that its file makes as a deque."""
    frame = look.users
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


def python_tree(e: Evidence) -> Finding | None:
    """Samples in loops or recursions of functions that deal with trees or priorities, called for one element at a time."""

    def walking(look: Look) -> bool:
        if look.stage.startswith("collect/env"):
            return False
        own = [frame for frame in look.frames if frame.own]
        for place, frame in enumerate(own):
            walks = _TREE.search(frame.name + _class_name(e, frame)) and (e.loops(frame) or _recurses(look))
            if walks and any(_inner_loop(e, own[:i]) for i in range(1, place + 1)):  # once for each element of a batch
                return True
        return False

    share = e.time_in(walking)
    if share < 0.05:
        return None
    said = (f"Walking a tree of priorities in Python took {units.share(share)} of the time.",)
    return Finding("per-python-tree", stages.SAMPLE, said, e.seen(share, 0.7, 0.97, 0.85), e.where(walking))


def _class_name(e: Evidence, frame: Frame) -> str:
    code = e.codes.get(frame.file)
    found = code.class_of(frame.line) if code else None
    return f" {found.name}" if found else ""


def _recurses(look: Look) -> bool:
    names = [(frame.file, frame.name) for frame in look.frames if frame.own]
    return len(set(names)) < len(names)


def sampler_capacity(e: Evidence) -> Finding | None:
    """Drawing a batch takes longer and longer."""
    share, grown = e.own_share(stages.SAMPLE), e.growth((stages.SAMPLE,), "updates")
    if share < 0.1 or grown < 1.3:
        return None
    said = (f"Drawing a batch takes {units.share(share)} of the time, {grown:.1f} times what it took at the start.",)
    part = 1 - 1 / grown
    return Finding("sampler-capacity", stages.SAMPLE, said, Saved(share * (part + 1) / 2, share * part / 2, share))


def list_to_tensor(e: Evidence) -> Finding | None:
    """Samples in lines that make a tensor of a list."""

    def making(look: Look) -> bool:
        innermost = look.frames[-1] if look.frames else None
        return innermost is not None and innermost.own and _from_list(e, innermost)

    share = e.time_in(making)
    if share < 0.05:
        return None
    said = (f"Making tensors from lists took {units.share(share)} of the time.",)
    return Finding("list-to-tensor", stages.SAMPLE, said, e.seen(share, 0.5, 0.95, 0.78), e.where(making))


def _from_list(e: Evidence, frame: Frame) -> bool:
    """Whether a line makes a tensor of something that is no plain array: a list, a comprehension, a column of a batch."""
    code = e.codes.get(frame.file)
    statement = code.statement(frame.line) if code else None
    if code is None or statement is None:
        return False
    if isinstance(statement, ast.For | ast.While | ast.If | ast.With | ast.FunctionDef | ast.ClassDef):
        return False
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and _TENSORS.match(ast.unparse(node.func) + "(") and node.args:
            made_of = node.args[0]
            if isinstance(
                made_of, ast.List | ast.ListComp | ast.Tuple | ast.Name | ast.Call | ast.Subscript
            ) and "np." not in ast.unparse(made_of):
                return ast.unparse(node.func) != "torch.stack"
    return False


def replay_swap(e: Evidence) -> Finding | None:
    """Pages come from the disk, and memory is nearly full."""
    faults, peak = e.counters.get("disk_faults_per_s") or 0.0, e.doc["memory"]["peak_bytes"]
    memory = float(e.machine.get("memory_limit") or e.machine.get("memory") or 0)
    if faults < 50 or (memory and peak < 0.7 * memory):
        return None
    share = e.own_share(STORE, stages.SAMPLE)
    said = (f"{faults:.0f} pages per second come from the disk; memory peaks at {units.size(peak)} of {units.size(memory)}.",)
    return Finding("replay-swap", stages.SAMPLE, said, Saved(0.5 * share, 0.1 * share, share))


def replay_h2d(e: Evidence) -> Finding | None:
    """Copies to the device while batches are drawn."""
    path = f"{stages.SAMPLE}/{stages.TRANSFER}"
    share = e.own_share(path)
    if share < 0.03:
        return None
    said = (f"Copying batches to the device took {units.share(share)} of the time.",)
    return Finding("replay-h2d", path, said, e.saved(share, 0.4, 1.0))


def gae_loop(e: Evidence) -> Finding | None:
    """Samples in a loop that runs backwards over the steps of a rollout."""

    def backwards(look: Look) -> bool:
        return any(frame.own and any(_is_backwards(loop) for loop in e.loops(frame)) for frame in look.frames)

    share = e.time_in(backwards)
    if share < 0.05:
        return None
    said = (f"A loop backwards over the rollout's steps took {units.share(share)} of the time.",)
    return Finding("gae-loop", stages.ADVANTAGE, said, e.seen(share, 0.7, 1.0, 0.92), e.where(backwards))


def _is_backwards(loop: object) -> bool:
    if not isinstance(loop, ast.For):
        return False
    over = ast.unparse(loop.iter)
    return over.startswith("reversed(") or bool(re.match(r"range\(.+, -1, -1\)", over))
