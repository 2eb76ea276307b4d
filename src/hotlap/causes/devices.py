"""GPUs: launches, copies, waiting. Without a GPU these rules have nothing to say, except about flushed caches."""

from hotlap.causes.cause import Cause, Saved, Suspicion
from hotlap.causes.evidence import Evidence
from hotlap.causes.remedy import Context, switch
from hotlap.causes.stacks import StackSample
from hotlap.core import stages, units
from hotlap.core.counts import UPDATES
from hotlap.core.paths import ACT, LOSS, OPTIMIZER
from hotlap.interventions import rewrite
from hotlap.interventions.code import Code
from hotlap.interventions.edit import Edits
from hotlap.interventions.intervention import Intervention
from hotlap.record.finding import Finding
from hotlap.record.lines import TRACED


def launch_bound(e: Evidence) -> Suspicion | None:
    """Updates take long while the GPU is idle."""
    busy, share = e.gpu_busy, e.inclusive_share(stages.UPDATE)
    if busy is None or busy > 0.5 or share < 0.2:
        return None
    evidence = f"The GPU is busy for {units.share(busy)} of the time, while updates take {units.share(share)}."
    return Suspicion(LOSS, (evidence,), Saved(share * (1 - busy) * 0.6, share * 0.1, share * (1 - busy)))


def compiled(c: Context, f: Finding) -> list[Intervention]:
    return [switch("networks compiled", "compile"), switch("fused optimizers", "foreach", fused=True)]


LAUNCH_BOUND = Cause(
    id="launch-bound",
    title="the GPU waits for Python to launch its kernels",
    fix="CUDA graphs, or torch.compile with mode reduce-overhead",
    rule=launch_bound,
    confirm="torch.compile",
    remedies=compiled,
    sources=("pytorch-labs/LeanRL", "meta-pytorch/LeanRL#2", "pytorch/rl#4216"),
)


def clip_sync(e: Evidence) -> Suspicion | None:
    """Stack samples in clipping, which waits for the GPU."""

    def clipping(stack: StackSample) -> bool:
        return any(frame.name.startswith("clip_grad") for frame in stack.frames)

    share = e.time_in(clipping)
    if not e.on_gpu or share < 0.05 or not e.counters.syncs_by_stage.get(OPTIMIZER):
        return None
    evidence = f"Clipping gradients took {units.share(share)} of the time, waiting for the GPU."
    return Suspicion(OPTIMIZER, (evidence,), e.seen(share, 0.2, 0.9), e.where(clipping), covers=clipping)


def without_clipping(c: Context, f: Finding) -> list[Intervention]:
    def edit(code: Code, line: int) -> Edits:
        return rewrite.left_out(code, line) if "clip_grad" in code.line(line) else []  # it may be a framework that clips

    return c.edited(f, "gradients are not clipped", edit, upper_bound=True, changes_learning=True)


CLIP_SYNC = Cause(
    id="clip-sync",
    title="clipping gradients makes the host wait for the GPU",
    fix="a newer torch, clip_grad_norm_(..., error_if_nonfinite=False)",
    rule=clip_sync,
    confirm="clipping off",
    remedies=without_clipping,
    sources=("pytorch/pytorch#60691",),
)


def no_amp(e: Evidence) -> Suspicion | None:
    """The GPU is busy, in float32."""
    busy, share = e.gpu_busy, e.inclusive_share(stages.UPDATE) + e.inclusive_share(ACT)
    if busy is None or busy < 0.8 or e.torch is None or e.torch.matmul != "highest":
        return None
    evidence = f"The GPU is busy for {units.share(busy)} of the time, in float32 without TF32 or autocast."
    return Suspicion(LOSS, (evidence,), Saved(0.3 * share, 0.05 * share, 0.7 * share))


def mixed_precision(c: Context, f: Finding) -> list[Intervention]:
    return [
        switch("TF32 products", "matmul", changes_learning=True),
        switch("autocast", "autocast", changes_learning=True),
    ]


NO_AMP = Cause(
    id="no-amp-big-net",
    title="the GPU is busy with float32 matrix products",
    fix="mixed precision: torch.autocast, or TF32",
    rule=no_amp,
    confirm="TF32, and autocast",
    remedies=mixed_precision,
    sources=("Toni-SM/skrl#155",),
    changes_learning=True,
)


def hidden_sync(e: Evidence) -> Suspicion | None:
    """Numbers are read from the GPU in every update."""
    syncs = sum(n for path, n in e.counters.syncs_by_stage.items() if path.startswith(stages.UPDATE))
    updates = sum(sample.counts.get(UPDATES, 0) for sample in e.run.phase(TRACED))
    if not e.on_gpu or not updates or syncs / updates < 1:
        return None
    share = e.inclusive_share(stages.UPDATE)
    evidence = f"The host reads {syncs / updates:.1f} numbers from the GPU per update."
    return Suspicion(LOSS, (evidence,), Saved(0.15 * share, 0.0, 0.5 * share))


HIDDEN_SYNC = Cause(
    id="hidden-sync",
    title="reading numbers from the GPU makes the host wait in the middle of an update",
    fix="keep statistics on the device, and read them once per iteration",
    rule=hidden_sync,
    sources=("pytorch-labs/LeanRL", "AgileRL/AgileRL#620"),
)


def sim_numpy(e: Evidence) -> Suspicion | None:
    """Observations come from the GPU and go back to it."""
    down, up = e.counters.to_host.bytes, e.counters.to_device.bytes
    path = f"{stages.COLLECT}/{stages.ENV_STEP}/{stages.TRANSFER}"
    share = e.exclusive_share(path)
    if not e.on_gpu or not e.env_steps or share < 0.03 or min(down, up) < 0.3 * max(down, up, 1.0):
        return None
    evidence = f"{units.size(down / e.env_steps)} per step come from the GPU and go back: {units.share(share)} of the time."
    return Suspicion(path, (evidence,), e.saved(share, 0.7, 1.0))


SIM_NUMPY = Cause(
    id="gpu-sim-numpy",
    title="observations of a simulator on the GPU travel to the host and back",
    fix="a trainer that takes tensors as they are",
    rule=sim_numpy,
    sources=("isaac-sim/IsaacLab#3087", "isaac-sim/IsaacLab#523"),
)


def cache_flush(e: Evidence) -> Suspicion | None:
    """Stack samples in garbage collection or in giving memory back."""

    def flushing(stack: StackSample) -> bool:
        return any(frame.name == "empty_cache" for frame in stack.frames) or "gc.collect(" in e.code(stack.user_frame)

    share = e.time_in(flushing)
    if share < 0.03:
        return None
    evidence = f"Collecting garbage and giving memory back took {units.share(share)} of the time."
    return Suspicion(stages.UNATTRIBUTED, (evidence,), e.seen(share, 0.8, 1.0), e.where(flushing), covers=flushing)


def without_flush(c: Context, f: Finding) -> list[Intervention]:
    return [
        *c.edited(f, "without that line", rewrite.left_out),
        switch("memory is left alone", "flush-off", upper_bound=True),
    ]


CACHE_FLUSH = Cause(
    id="cache-flush",
    title="memory is collected or given back on every step",
    fix="leave torch.cuda.empty_cache() and gc.collect() out of the loop",
    rule=cache_flush,
    confirm="leave them out",
    remedies=without_flush,
    sources=("huggingface/peft#2894",),
)

CAUSES = (LAUNCH_BOUND, CLIP_SYNC, NO_AMP, HIDDEN_SYNC, SIM_NUMPY, CACHE_FLUSH)
