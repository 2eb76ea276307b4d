"""Petri nets: the kernel against the Python reference, and against firing the untimed net with pm4py where it is installed.

Both replay the same actions, recorded before with a random legal choice, so that no time goes into choosing. One core.

python benchmarks/petri.py
"""

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from side_by_side import interleave, pin_to_one_core, save, speedup

import hotlap
from hotlap.envs.layout import draw_legal
from hotlap.envs.petri.cluster import cluster_tool
from hotlap.envs.petri.reference import FEATURES

GOAL = 100
STEPS = 200
KERNEL_ENVS, REFERENCE_ENVS = 256, 8


def record(options: dict[str, Any], num_envs: int) -> NDArray[np.int64]:
    """Random legal actions, [steps, environments]."""
    env = hotlap.make_vec("petri", num_envs, seed=0, **options)
    draw = np.random.default_rng(0)
    _, info = env.reset()
    actions = np.zeros((STEPS, num_envs), np.int64)
    for step in range(STEPS):
        actions[step] = draw_legal(env.single_action_space, info["action_mask"], draw)
        *_, info = env.step(actions[step])
    return actions


def replay(options: dict[str, Any], actions: NDArray[np.int64], turbo: bool) -> Callable[[], int]:
    """A contender: all steps of all environments."""
    env = hotlap.make_vec("petri", actions.shape[1], turbo=turbo, seed=0, **options)

    def run() -> int:
        env.reset()
        for action in actions:
            env.step(action)
        return actions.size

    return run


def pm4py_firings() -> Callable[[], int] | None:
    """A contender: the untimed cluster tool in pm4py, with the enabled transitions at each step, as an agent needs them."""
    try:
        from pm4py.objects.petri_net import semantics
        from pm4py.objects.petri_net.obj import Marking, PetriNet
        from pm4py.objects.petri_net.utils.petri_utils import add_arc_from_to
    except ImportError:
        return None
    net, theirs = cluster_tool(guards=False), PetriNet("cluster tool")
    places = {place.name: PetriNet.Place(place.name) for place in net.places}
    theirs.places.update(places.values())
    for transition in net.transitions:
        own = PetriNet.Transition(transition.name, transition.name)
        theirs.transitions.add(own)
        for arc in transition.inputs:
            add_arc_from_to(places[arc.place], own, theirs)
        for arc in transition.outputs:
            add_arc_from_to(own, places[arc.place], theirs)
    first = Marking({places[place.name]: place.tokens for place in net.places if place.tokens})

    def run() -> int:
        choose, marking = random.Random(0), first
        for _ in range(STEPS):
            enabled = sorted(semantics.enabled_transitions(theirs, marking), key=lambda transition: str(transition.name))
            marking = semantics.execute(choose.choice(enabled), theirs, marking) if enabled else first
        return STEPS

    return run


def main() -> None:
    pin_to_one_core()
    results = {}
    for wafers in (4, 12, 25):
        for features in FEATURES:
            options: dict[str, Any] = {"wafers": wafers, "features": features, "stop_when_dead": True}
            samples = interleave(
                {
                    "reference": replay(options, record(options, REFERENCE_ENVS), turbo=False),
                    "kernel": replay(options, record(options, KERNEL_ENVS), turbo=True),
                }
            )
            results[f"{wafers} wafers, {features}: kernel / reference"] = {
                **speedup(samples, "reference", "kernel"),
                "goal": GOAL,
            }
    pm4py = pm4py_firings()
    if pm4py:
        options = {"wafers": 12, "stop_when_dead": True}
        samples = interleave({"pm4py": pm4py, "kernel": replay(options, record(options, KERNEL_ENVS), turbo=True)})
        results["12 wafers: kernel / pm4py, untimed"] = speedup(samples, "pm4py", "kernel")
    for result in results.values():
        rates = ", ".join(f"{name} {rate:,.0f}" for name, rate in result["per_second"].items())
        print(f"steps per second: {rates}", file=sys.stderr)
    sys.exit(0 if save("petri", "python benchmarks/petri.py", results) else 1)


if __name__ == "__main__":
    main()
