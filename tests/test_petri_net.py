"""Petri nets without time: the cluster tool's reachability, firing, nets that are refused, pm4py as an oracle."""

import json
import random

import pytest

from hotlap.envs.petri.cluster import cluster_tool
from hotlap.envs.petri.marking import enabled, fire, fire_sequence
from hotlap.envs.petri.net import Net, NetBuilder, Place, Transition
from hotlap.envs.petri.pnml import parse_pnml, read_pnml
from hotlap.envs.petri.reachability import dead_markings, reachability
from tests import petri_oracle
from tests.petri_nets import random_net


def held(net, marking):
    return {place.name: count for place, count in zip(net.places, marking, strict=True) if count}


def names(net, numbers):
    return sorted(net.transitions[number].name for number in numbers)


# -- the cluster tool --


@pytest.mark.parametrize(
    ("wafers", "guards", "markings", "arcs", "dead"),
    [
        (3, False, 276, 491, 4),
        (3, True, 273, 488, 1),
        (4, True, 691, 1_350, 2),
        (12, False, 9_516, 19_422, 483),
        (12, True, 7_554, 16_035, 85),
    ],
)
def test_reachable_markings_of_the_cluster_tool(wafers, guards, markings, arcs, dead):
    found = reachability(cluster_tool(wafers, guards))
    assert (found.markings, found.arcs, len(found.dead)) == (markings, arcs, dead)


def test_the_cluster_tool_has_fifteen_places_and_twelve_transitions():
    net = cluster_tool()
    assert (len(net.places), len(net.transitions), net.token_limit) == (15, 12, 12)
    assert held(net, net.marking) == {"LP": 12, "TM2": 1, "TM3": 1}


def test_three_guarded_wafers_die_only_when_done_and_four_can_deadlock():
    net = cluster_tool(3)
    assert [held(net, marking) for marking in dead_markings(net)] == [{"done": 3, "TM2": 1, "TM3": 1}]
    net = cluster_tool(4)
    found = reachability(net)
    (stuck,) = (marking for marking in found.dead if "done" not in held(net, marking))
    assert held(net, stuck) == {"s2": 1, "s4": 1, "d_s2": 1, "d_s4": 1}  # each robot holds a wafer for a place that is full
    path = found.path(net, stuck)
    assert fire_sequence(net, path)[-1] == stuck
    assert enabled(net, stuck) == []


def test_a_sequence_is_fired_by_name_or_refused():
    net = cluster_tool(2)
    markings = fire_sequence(net, ["u_LP_s1", "t_s1"])
    assert [held(net, marking) for marking in markings[1:]] == [
        {"LP": 1, "d_s1": 1, "TM3": 1},
        {"LP": 1, "s1": 1, "TM2": 1, "TM3": 1},
    ]
    with pytest.raises(ValueError, match=r"u_s1_s2 \(number 1 of the sequence\) is not enabled in LP 1, d_s1 1, TM3 1"):
        fire_sequence(net, ["u_LP_s1", "u_s1_s2"])
    with pytest.raises(ValueError, match="there is no transition 'jump'"):
        fire_sequence(net, ["jump"])


# -- rules --


def test_weights_capacities_guards_and_self_loops():
    net = NetBuilder().place("a", tokens=3).place("b", capacity=2).place("c", tokens=1, capacity=1)
    net.transition("two", {"a": 2}, {"b": 1}).transition("loop", ["c", "a"], ["c"]).transition("full", ["a"], {"b": 3})
    net.transition("guarded", ["a"], [], below={"a": 3}).transition("source", [], ["b"])
    net = net.build()
    assert names(net, enabled(net, net.marking)) == ["loop", "source", "two"]  # a self-loop needs no room of its own
    after = fire(net, net.marking, net.transition_number["two"])
    assert held(net, after) == {"a": 1, "b": 1, "c": 1}
    assert names(net, enabled(net, after)) == ["guarded", "loop", "source"]


def test_a_net_without_bounds_is_refused_not_followed():
    net = NetBuilder().place("a").transition("make", [], ["a"]).build()
    with pytest.raises(ValueError, match="more than 1,000 markings can be reached, such as a 1000"):
        reachability(net, limit=1_000)


def test_how_many_tokens_a_net_can_have():
    conserving = NetBuilder().place("a", tokens=3).place("b").transition("t", ["a"], ["b"])
    assert conserving.build().token_limit == 3
    bounded = NetBuilder().place("a", capacity=5).place("b", capacity=4).transition("t", ["a"], {"b": 2})
    assert bounded.build().token_limit == 9
    assert NetBuilder().place("a").transition("t", [], ["a"]).build().token_limit == 256
    assert NetBuilder(max_tokens=7).place("a").transition("t", [], ["a"]).build().token_limit == 7


PLACE = Place("a", tokens=1)
FIRING = Transition("t", (), ())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Net((), (FIRING,)), "number of places must be a whole number from 1 to 1,000, not 0"),
        (lambda: Net((PLACE,), ()), "number of transitions must be a whole number from 1"),
        (lambda: Net((PLACE, PLACE), (FIRING,)), "two places are called 'a'"),
        (lambda: Net((Place("a\nb"),), (FIRING,)), r"a place needs a name of 1 to 200 printable characters, not 'a\\nb'"),
        (lambda: Net((PLACE,), (FIRING,), name=""), "a net needs a name"),
        (lambda: Net((Place("a", tokens=-1),), (FIRING,)), "tokens of place 'a' must be a whole number from 0"),
        (lambda: Net((Place("a", tokens=3, capacity=2),), (FIRING,)), "capacity of place 'a' must be a whole number from 3"),
        (lambda: Net((Place("a", process=1.5),), (FIRING,)), "process time of place 'a' must be a whole number"),
        (lambda: Net((Place("a", role="oven"),), (FIRING,)), "the role of place 'a' must be one of buffer, chamber"),
        (lambda: Net((PLACE,), (FIRING,), wait=0), "wait must be a whole number from 1"),
        (lambda: Net((PLACE,), (FIRING,), max_tokens=0), "max_tokens must be a whole number from 1"),
        (lambda: Net((PLACE,), (Transition("t", (), (), duration=0),)), "duration of transition 't' must be a whole number"),
        (lambda: Net((Place("a", tokens=2_000),), (FIRING,)), "number of identified tokens must be"),
        (lambda: NetBuilder().place("a", role="oven"), "unknown role 'oven'; choose one of buffer"),
        (lambda: NetBuilder().place("a").transition("t", ["b"], []).build(), "name a place that does not exist: 'b'"),
        (lambda: NetBuilder().place("a").transition("t", {"a": 0}, []).build(), "weight between 'a' and 't' must be"),
        (lambda: NetBuilder().place("r", process=5, role="resource").transition("t", [], []).build(), "is a resource"),
        (lambda: NetBuilder().place("s", residency=5, role="sink").transition("t", [], []).build(), "is a sink"),
        (lambda: cluster_tool(0), "wafers must be a whole number from 1 to 1,000, not 0"),
    ],
)
def test_bad_nets_raise_one_clear_line(make, message):
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert str(caught.value).startswith("petri: ")
    assert "\n" not in str(caught.value)


# -- against pm4py --


def assert_same_walk(net, walk):
    marking = net.marking
    for enabled_names, fired in walk:
        assert names(net, enabled(net, marking)) == enabled_names
        if fired:
            marking = fire(net, marking, net.transition_number[fired])


@pytest.mark.parametrize("seed", petri_oracle.RECORDED)
def test_recorded_walks_of_pm4py(seed):
    """In nets that hotlap wrote, and in the same nets as pm4py writes them, where capacities are places."""
    walk = json.loads((petri_oracle.DATA / f"net{seed}.json").read_text())
    assert len(walk) > 20
    assert_same_walk(read_pnml(petri_oracle.DATA / f"net{seed}.pnml"), walk)
    assert_same_walk(read_pnml(petri_oracle.DATA / f"net{seed}_pm4py.pnml"), walk)


@pytest.mark.exact
@pytest.mark.parametrize("seed", range(100))
def test_enabled_transitions_equal_those_of_pm4py(seed):
    pytest.importorskip("pm4py")
    net = random_net(random.Random(seed), timed=False)
    for again in range(3):
        walk = petri_oracle.walk(net, seed + 1_000 * again)
        assert_same_walk(net, walk)
        assert_same_walk(parse_pnml(petri_oracle.as_pnml(net)), walk)
