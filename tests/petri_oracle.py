"""pm4py as an oracle of untimed nets: random nets, the PNML that it writes, the transitions that it enables along firings.

`python -m tests.petri_oracle` records a sample in tests/data/petri, for machines without pm4py. pm4py knows no capacities: a
place with one gets a second place that holds the room that is left.
"""

import json
import random
from pathlib import Path

DATA = Path(__file__).parent / "data" / "petri"
RECORDED = (0, 11, 12, 13, 17)  # seeds of nets that live long
STEPS = 40


def to_pm4py(net):
    """The net in pm4py, its first marking, and its transitions by name."""
    from pm4py.objects.petri_net.obj import InhibitorNet, Marking, PetriNet
    from pm4py.objects.petri_net.utils.petri_utils import add_arc_from_to

    theirs, marking = InhibitorNet(net.name), Marking()
    places = {place.name: PetriNet.Place(place.name) for place in net.places}
    room = {place.name: PetriNet.Place(f"room of {place.name}") for place in net.places if place.capacity is not None}
    theirs.places.update(places.values(), room.values())
    for place in net.places:
        if place.tokens:
            marking[places[place.name]] = place.tokens
        if place.capacity is not None and place.capacity > place.tokens:
            marking[room[place.name]] = place.capacity - place.tokens
    transitions = {transition.name: PetriNet.Transition(transition.name, transition.name) for transition in net.transitions}
    for transition in net.transitions:
        own = transitions[transition.name]
        theirs.transitions.add(own)
        gain = dict.fromkeys(places, 0)
        for arc in transition.inputs:
            add_arc_from_to(places[arc.place], own, theirs, arc.weight)
            gain[arc.place] -= arc.weight
        for arc in transition.outputs:
            add_arc_from_to(own, places[arc.place], theirs, arc.weight)
            gain[arc.place] += arc.weight
        for name, place in room.items():
            if gain[name] > 0:
                add_arc_from_to(place, own, theirs, gain[name])
            elif gain[name] < 0:
                add_arc_from_to(own, place, theirs, -gain[name])
        for guard in transition.guards:
            assert guard.below == 1, "pm4py's inhibitor arcs have no weight"
            add_arc_from_to(places[guard.place], own, theirs, type="inhibitor")
    return theirs, marking, transitions


def walk(net, seed, steps=STEPS):
    """A random firing sequence by pm4py: (the names that are enabled, the one that fires) at each step."""
    from pm4py.objects.petri_net.inhibitor_reset.semantics import enabled_transitions, execute

    choose = random.Random(seed)
    theirs, marking, _ = to_pm4py(net)
    seen = []
    for _ in range(steps):
        enabled = {transition.name: transition for transition in enabled_transitions(theirs, marking)}
        if not enabled:
            seen.append(([], None))
            break
        name = choose.choice(sorted(enabled))
        seen.append((sorted(enabled), name))
        marking = execute(enabled[name], theirs, marking)
    return seen


def as_pnml(net):
    """The document that pm4py writes, the places for room included; the last place is its final marking."""
    from pm4py.objects.petri_net.exporter.variants.pnml import export_petri_as_string

    theirs, marking, _ = to_pm4py(net)
    final = type(marking)({place: 1 for place in theirs.places if place.name == net.places[-1].name})
    return export_petri_as_string(theirs, marking, final)


def record():
    from hotlap.envs.petri.pnml import format_pnml
    from tests.petri_nets import random_net

    DATA.mkdir(parents=True, exist_ok=True)
    for number in RECORDED:
        net = random_net(random.Random(number), timed=False)
        (DATA / f"net{number}.pnml").write_text(format_pnml(net))
        (DATA / f"net{number}_pm4py.pnml").write_bytes(as_pnml(net))
        (DATA / f"net{number}.json").write_text(json.dumps(walk(net, number)) + "\n")


if __name__ == "__main__":
    record()
