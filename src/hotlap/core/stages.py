"""The stages of training: the only place where a stage name is written.

Stages form a tree. A path such as `update/loss` names a stage by where it happened: time is charged to the innermost open
stage, so the exclusive times of all paths, with `unattributed`, sum to the wall time.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    name: str
    parent: str | None
    meaning: str


COLLECT = "collect"
ACT = "act"
ENV_STEP = "env_step"
ENV_RESET = "env_reset"
STORE = "store"
WAIT = "wait"
ADVANTAGE = "advantage"
SAMPLE = "sample"
UPDATE = "update"
LOSS = "loss"
CONTRASTIVE = "contrastive"
KICKSTART = "kickstart"
BACKWARD = "backward"
OPTIMIZER = "optimizer"
TARGET = "target"
TRANSFER = "transfer"
EVALUATE = "evaluate"
LOG = "log"
WEIGHTS = "weights"
CHECKPOINT = "checkpoint"
BESIDE = (EVALUATE, LOG, CHECKPOINT)  # work beside training, often rare and long
UNATTRIBUTED = "unattributed"  # what no stage claimed; no stage, but shown beside them

STAGES = {
    stage.name: stage
    for stage in (
        Stage(COLLECT, None, "gathering experience from the environments"),
        Stage(ACT, COLLECT, "the policy choosing actions, exploration included"),
        Stage(ENV_STEP, COLLECT, "environments stepping, with the resets inside a step that cannot be told apart"),
        Stage(ENV_RESET, COLLECT, "environments starting episodes"),
        Stage(STORE, COLLECT, "writing experience into the rollout or replay buffer"),
        Stage(WAIT, COLLECT, "waiting for environment workers"),
        Stage(ADVANTAGE, None, "returns and advantages"),
        Stage(SAMPLE, None, "drawing minibatches, and keeping the priorities they are drawn by"),
        Stage(UPDATE, None, "learning from minibatches"),
        Stage(LOSS, UPDATE, "forward passes with gradients, and the loss"),
        Stage(CONTRASTIVE, LOSS, "the contrastive loss: a state's future, told from other states"),
        Stage(KICKSTART, LOSS, "the teacher's policy, and the divergence from it"),
        Stage(BACKWARD, UPDATE, "gradients"),
        Stage(OPTIMIZER, UPDATE, "clipping and the optimizer's step"),
        Stage(TARGET, UPDATE, "copying into target networks"),
        Stage(TRANSFER, None, "copies between host and device; may happen inside any stage"),
        Stage(EVALUATE, None, "playing to measure the policy"),
        Stage(LOG, None, "metrics, TensorBoard, progress"),
        Stage(WEIGHTS, LOG, "analysis of the weights: singular values of each layer"),
        Stage(CHECKPOINT, None, "saving state"),
    )
}

_ORDER = {name: i for i, name in enumerate([*STAGES, UNATTRIBUTED])}


def order(path: str) -> tuple[int, ...]:
    """Sort key that lists paths in the order of the tree, parents first, unknown names last."""
    return tuple(_ORDER.get(name, len(_ORDER)) for name in path.split("/"))


def parent(path: str) -> str | None:
    """The path that encloses this one."""
    return path.rpartition("/")[0] or None


def meaning(path: str) -> str:
    name = path.rpartition("/")[2]
    return STAGES[name].meaning if name in STAGES else "time that no stage claimed" if name == UNATTRIBUTED else ""
