"""Rules about GPUs: launches, copies, waiting. Without a GPU they have nothing to say."""

from hotlap.causes.evidence import Evidence, Look
from hotlap.core import stages, units
from hotlap.core.paths import ACT, LOSS, OPTIMIZER
from hotlap.record.finding import Finding, Saved

SMALL = 1_000_000  # parameters below which a network may be too small for a GPU


def _busy(e: Evidence) -> float | None:
    busy = e.doc.get("gpu_busy")
    return float(busy) if busy is not None and e.device == "cuda" else None


def _neural(e: Evidence) -> float:
    return e.share(stages.UPDATE) + e.share(ACT)


def tiny_policy(e: Evidence) -> Finding | None:
    """A network below a million parameters on a GPU that is idle for most of the time."""
    busy, share = _busy(e), _neural(e)
    if busy is None or busy > 0.3 or e.parameters > SMALL or (e.minibatch or 0) > 1024 or share < 0.2:
        return None
    said = (f"The GPU is busy for {units.share(busy)} of the time; {e.parameters:,} parameters take {units.share(share)}.",)
    return Finding("gpu-tiny-policy", LOSS, said, Saved(0.5 * share, 0.05 * share, 0.8 * share))


def launch_bound(e: Evidence) -> Finding | None:
    """Updates take long while the GPU is idle."""
    busy, share = _busy(e), e.share(stages.UPDATE)
    if busy is None or busy > 0.5 or share < 0.2:
        return None
    said = (f"The GPU is busy for {units.share(busy)} of the time, while updates take {units.share(share)}.",)
    return Finding("launch-bound", LOSS, said, Saved(share * (1 - busy) * 0.6, share * 0.1, share * (1 - busy)))


def clip_sync(e: Evidence) -> Finding | None:
    """Samples in clipping, which waits for the GPU."""

    def clipping(look: Look) -> bool:
        return any(frame.name.startswith("clip_grad") for frame in look.frames)

    share = e.time_in(clipping)
    if e.device != "cuda" or share < 0.05 or not e.counters.get("syncs_by_stage", {}).get(OPTIMIZER):
        return None
    said = (f"Clipping gradients took {units.share(share)} of the time, waiting for the GPU.",)
    return Finding("clip-sync", OPTIMIZER, said, e.seen(share, 0.2, 0.9), e.where(clipping))


def no_amp(e: Evidence) -> Finding | None:
    """The GPU is busy, in float32."""
    busy, share = _busy(e), _neural(e)
    if busy is None or busy < 0.8 or e.torch.get("matmul") != "highest":
        return None
    said = (f"The GPU is busy for {units.share(busy)} of the time, in float32 without TF32 or autocast.",)
    return Finding("no-amp-big-net", LOSS, said, Saved(0.3 * share, 0.05 * share, 0.7 * share))


def hidden_sync(e: Evidence) -> Finding | None:
    """Numbers are read from the GPU in every update."""
    syncs = {path: n for path, n in e.counters.get("syncs_by_stage", {}).items() if path.startswith(stages.UPDATE)}
    updates = sum(s.counts.get("updates", 0) for s in e.run.phase("traced"))
    if e.device != "cuda" or not updates or sum(syncs.values()) / updates < 1:
        return None
    share = e.share(stages.UPDATE)
    said = (f"The host reads {sum(syncs.values()) / updates:.1f} numbers from the GPU per update.",)
    return Finding("hidden-sync", LOSS, said, Saved(0.15 * share, 0.0, 0.5 * share))


def sim_numpy(e: Evidence) -> Finding | None:
    """Observations come from the GPU and go back to it."""
    down, up = e.counters.get("to_host", {}).get("bytes", 0.0), e.counters.get("to_device", {}).get("bytes", 0.0)
    path = f"{stages.COLLECT}/{stages.ENV_STEP}/{stages.TRANSFER}"
    share = e.own_share(path)
    if e.device != "cuda" or not e.env_steps or share < 0.03 or min(down, up) < 0.3 * max(down, up, 1.0):
        return None
    said = (f"{units.size(down / e.env_steps)} per step come from the GPU and go back: {units.share(share)} of the time.",)
    return Finding("gpu-sim-numpy", path, said, e.saved(share, 0.7, 1.0))


def cache_flush(e: Evidence) -> Finding | None:
    """Samples in garbage collection or in giving memory back."""

    def flushing(look: Look) -> bool:
        return any(frame.name == "empty_cache" for frame in look.frames) or "gc.collect(" in e.code(look.users)

    share = e.time_in(flushing)
    if share < 0.03:
        return None
    said = (f"Collecting garbage and giving memory back took {units.share(share)} of the time.",)
    return Finding("cache-flush", stages.UNATTRIBUTED, said, e.seen(share, 0.8, 1.0), e.where(flushing))
