"""Diagnosis: a run's evidence goes through one list of rules, each a small function that knows one cause.

A rule returns a finding or nothing. Findings that explain each other are merged, and the rest is ordered by what mending it
would give. A finding is a suspicion with numbers: `hotlap investigate` runs the experiment that confirms or refutes it.
"""

from collections.abc import Callable
from typing import Any

from hotlap.causes import acting, buffers, devices, environments, habits, long_runs, updates, vectors
from hotlap.causes.catalogue import CAUSES
from hotlap.causes.evidence import Evidence
from hotlap.record.finding import NOTHING, Finding
from hotlap.record.run import Run

Rule = Callable[[Evidence], Finding | None]

RULES: dict[str, Rule] = {
    "env-realtime-throttle": environments.realtime_throttle,
    "env-render": environments.render,
    "env-pandas-index": environments.pandas_index,
    "env-deepcopy": environments.deepcopy,
    "env-slow-reset": environments.slow_reset,
    "env-wrapper-tax": environments.wrapper_tax,
    "env-python-loop": environments.python_loop,
    "jax-unjitted-step": environments.jax_unjitted,
    "ipc-payload": vectors.payload,
    "vec-straggler": vectors.straggler,
    "subproc-cheap-env": vectors.cheap_env,
    "env-oversubscribe": vectors.oversubscribe,
    "serial-heavy-env": vectors.serial_heavy,
    "actor-learner-cores": vectors.actor_learner,
    "broadcast-payload": vectors.broadcast,
    "gpu-tiny-policy": devices.tiny_policy,
    "batch1-inference": acting.batch1,
    "grad-in-rollout": acting.grad_in_rollout,
    "dist-validate": acting.dist_validate,
    "too-few-envs": acting.too_few_envs,
    "push-item-sync": buffers.push_item,
    "deque-sampling": buffers.deque_sampling,
    "per-python-tree": buffers.python_tree,
    "sampler-capacity": buffers.sampler_capacity,
    "list-to-tensor": buffers.list_to_tensor,
    "replay-swap": buffers.replay_swap,
    "replay-h2d": buffers.replay_h2d,
    "gae-loop": buffers.gae_loop,
    "anomaly-on": updates.anomaly,
    "recompile-churn": updates.recompile,
    "compile-unamortized": updates.compile_unamortized,
    "rnn-seq-loop": updates.rnn_loop,
    "per-param-loops": updates.param_loops,
    "float64-data": updates.float64,
    "tiny-minibatch": updates.tiny_minibatch,
    "utd-high": updates.utd,
    "oversized-net": updates.oversized,
    "launch-bound": devices.launch_bound,
    "clip-sync": devices.clip_sync,
    "no-amp-big-net": devices.no_amp,
    "hidden-sync": devices.hidden_sync,
    "gpu-sim-numpy": devices.sim_numpy,
    "cache-flush": devices.cache_flush,
    "torch-oversubscribe": habits.torch_threads,
    "cgroup-miscount": habits.cgroup,
    "cv2-threads": habits.cv2_threads,
    "gil-locks": habits.gil_locks,
    "logger-per-step": habits.logger,
    "eval-dominates": habits.evaluation,
    "ckpt-replay": habits.checkpoint,
    "env-state-leak": long_runs.env_leak,
    "graph-retention": long_runs.graph_retention,
    "harder-states": long_runs.harder_states,
    "learning-starts": long_runs.learning_starts,
    "store-spill": long_runs.store_spill,
}
assert RULES.keys() == CAUSES.keys()


def diagnose(run: Run) -> list[Finding]:
    """The findings of a run, the most promising first; those that are no bug come last."""
    return findings(Evidence(run))


def findings(evidence: Evidence) -> list[Finding]:
    if not evidence.samples:
        return []
    found = {cause: finding for cause, rule in RULES.items() if (finding := rule(evidence)) is not None}
    return sorted(_merged(found), key=lambda finding: -finding.saved.value)


def _merged(found: dict[str, Finding]) -> list[Finding]:
    """Findings without those that another explains: one of which the other is a sign, with no more to gain than it has."""
    merged = dict(found)
    for cause in found:
        for other in CAUSES[cause].explains:
            if cause in merged and other in merged and _outweighs(merged[cause], merged[other]):
                merged[cause] = merged[cause].explain(merged.pop(other))
    return list(merged.values())


def _outweighs(finding: Finding, other: Finding) -> bool:
    if other.saved == NOTHING or finding.numbers.get("heavy"):
        return True
    return finding.saved.value >= 0.5 * other.saved.value


def document(run: Run) -> dict[str, Any]:
    """Findings as plain data."""
    evidence = Evidence(run)
    return {
        "schema": "hotlap.diagnose/1",
        **run.facts(),
        "verb": "diagnose",
        "findings": [finding.document() for finding in findings(evidence)],
        "throughput": evidence.doc["throughput"],
        "stages": evidence.doc["stages"],
        "warnings": evidence.doc["warnings"],
    }
