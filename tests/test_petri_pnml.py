"""PNML: what is written is read back whole, files of other tools load, and bad files give one line and touch nothing."""

import random
import sys
import tracemalloc

import pytest

from hotlap.envs.petri import safe_xml
from hotlap.envs.petri.cluster import cluster_tool
from hotlap.envs.petri.net import Arc, Guard, NetBuilder, Role
from hotlap.envs.petri.pnml import NAMESPACE, format_pnml, parse_pnml, read_pnml, write_pnml
from tests import petri_oracle
from tests.petri_nets import random_net

# -- there and back --


@pytest.mark.parametrize("net", [cluster_tool(), cluster_tool(3, guards=False)], ids=["guarded", "free"])
def test_the_cluster_tool_comes_back_whole(net, tmp_path):
    write_pnml(net, tmp_path / "tool.pnml")
    assert read_pnml(tmp_path / "tool.pnml") == net


def test_any_net_comes_back_whole():
    for seed in range(60):
        net = random_net(random.Random(seed))
        assert parse_pnml(format_pnml(net)) == net


def test_names_with_odd_characters_come_back():
    net = NetBuilder('<"&> é 漢').place("a & b", tokens=1).place("]]>").transition("t<1>", ["a & b"], ["]]>"]).build()
    assert parse_pnml(format_pnml(net)) == net


def test_the_document_follows_the_standard():
    text = format_pnml(cluster_tool(2))
    root, namespace = safe_xml.parse(text.encode())
    assert (root.tag, namespace) == ("pnml", NAMESPACE)
    (net,) = root.children
    assert net.attributes["type"] == "http://www.pnml.org/version-2009/grammar/ptnet"
    assert [child.tag for child in net.children] == ["name", "toolspecific", "page"]
    assert {child.tag for child in net.children[2].children} == {"place", "transition", "arc"}


# -- files of other tools --


def document(*nodes, net="", kind="ptnet", root=f'pnml xmlns="{NAMESPACE}"'):
    body = "".join(nodes)
    grammar = f"http://www.pnml.org/version-2009/grammar/{kind}"
    return f'<{root}><net id="n" type="{grammar}">{net}<page id="g">{body}</page></net></pnml>'


def place(key, label=""):
    return f'<place id="{key}">{label}</place>'


def arc(source, target, label=""):
    return f'<arc id="{source}-{target}" source="{source}" target="{target}">{label}</arc>'


A, B, T = place("a", "<initialMarking><text> 2 </text></initialMarking>"), place("b"), '<transition id="t"/>'


def test_a_plain_net_of_the_standard():
    weight = "<inscription><graphics/><text>2</text></inscription>"
    net = parse_pnml(document(A, B, T, arc("a", "t", weight), arc("t", "b"), arc("t", "b")))
    assert [(each.name, each.tokens, each.role, each.capacity) for each in net.places] == [
        ("a", 2, Role.BUFFER, None),
        ("b", 0, Role.BUFFER, None),
    ]
    (transition,) = net.transitions
    assert (transition.inputs, transition.outputs, transition.duration) == ((Arc("a", 2),), (Arc("b", 2),), 5)


def test_pages_references_names_and_inhibitor_arcs():
    inner = (
        '<page id="inner"><referencePlace id="r2" ref="r1"/><transition id="u"><name><text>go</text></name></transition></page>'
    )
    nodes = (A, B, T, inner, '<referencePlace id="r1" ref="a"/>', arc("r2", "u"), arc("t", "b"))
    inhibitor = arc("b", "u", "<arctype><text>inhibitor</text></arctype>")
    net = parse_pnml(document(*nodes, inhibitor, place("c", "<name><text>go</text></name>")))
    assert [each.name for each in net.places] == ["a", "b", "go"]
    go = net.transitions[net.transition_number["go"]]
    assert (go.inputs, go.guards) == ((Arc("a"),), (Guard("b", 1),))


def test_parallel_inhibitor_arcs_must_all_hold():
    inhibitors = [f"<inscription><text>{n}</text></inscription><arctype><text>inhibitor</text></arctype>" for n in (3, 2, 5)]
    (transition,) = parse_pnml(document(A, B, T, *(arc("b", "t", label) for label in inhibitors))).transitions
    assert transition.guards == (Guard("b", 2),) and not transition.inputs


def test_places_that_share_a_name_are_told_apart():
    label = "<name><text>same</text></name>"
    assert [each.name for each in parse_pnml(document(place("a", label), place("b", label), T)).places] == [
        "same (a)",
        "same (b)",
    ]


@pytest.mark.parametrize("seed", petri_oracle.RECORDED)
def test_pnml_that_pm4py_wrote(seed):
    net = read_pnml(petri_oracle.DATA / f"net{seed}_pm4py.pnml")
    ours = read_pnml(petri_oracle.DATA / f"net{seed}.pnml")
    theirs = {each.name: each for each in net.places}
    for each in ours.places:
        assert theirs[each.name].tokens == each.tokens
    assert theirs[ours.places[-1].name].role is Role.SINK  # its final marking
    assert {each.name for each in net.transitions} == {each.name for each in ours.transitions}


@pytest.mark.exact
def test_pm4py_reads_what_hotlap_writes(tmp_path):
    pm4py = pytest.importorskip("pm4py")
    for seed in range(60):
        net = random_net(random.Random(seed), timed=False)
        write_pnml(net, tmp_path / "net.pnml")
        theirs, marking, _ = pm4py.read_pnml(str(tmp_path / "net.pnml"), auto_guess_final_marking=False)
        assert sorted(each.properties.get("place_name_tag", each.name) for each in theirs.places) == sorted(
            p.name for p in net.places
        )
        assert sum(marking.values()) == sum(each.tokens for each in net.places)
        weights = sum(arc.weight for each in net.transitions for arc in each.inputs + each.outputs)
        assert sum(each.weight for each in theirs.arcs) == weights


# -- bad files --

TOOL = '<toolspecific tool="hotlap" version="{}">{}</toolspecific>'
WHOLE = format_pnml(cluster_tool(3))
LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>' + document(place("&b;"), T)
FILE_ENTITY = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]>' + document(
    place("a", "<name><text>&a;</text></name>"), T
)
NET_ENTITY = '<!DOCTYPE x SYSTEM "http://localhost:9/x.dtd">' + document(A, T)
BAD = [
    ("", "it is not well-formed XML: no element found"),
    ("not xml", "it is not well-formed XML: syntax error"),
    (WHOLE[: len(WHOLE) // 2], "it is not well-formed XML: no element found|unclosed token"),
    (WHOLE.replace(NAMESPACE, "http://example.org/pnml"), "its namespace is 'http://example.org/pnml', not"),
    ("<html/>", "its root element is 'html', not 'pnml'"),
    ("<pnml/>", "it has 0 nets; it must have one"),
    (document(A, T, kind="symmetricnet"), "only place/transition nets"),
    (document(T), "number of places must be a whole number from 1"),
    (document(A, A, T), "the id 'a' is used twice"),
    (document("<place/>", T), "an element 'place' has no attribute 'id'"),
    (document(A, T, arc("a", "z")), "there is no place or transition with the id 'z'"),
    (document(A, B, T, arc("a", "b")), "must lead from a place to a transition"),
    (
        document(A, T, arc("a", "t", "<inscription><text>x</text></inscription>")),
        "the inscription of the arc from 'a' to 't' must be",
    ),
    (document(A, T, arc("a", "t", "<arctype><text>reset</text></arctype>")), "is of type 'reset', which is not supported"),
    (document(place("a", "<initialMarking><text>-1</text></initialMarking>"), T), "the initial marking of place 'a' must be"),
    (document(place("a", "<initialMarking><text>9999999999</text></initialMarking>"), T), "whole number from 0 to 1,000,000"),
    (document('<referencePlace id="r" ref="s"/><referencePlace id="s" ref="r"/>', A, T, arc("r", "t")), "leads back to itself"),
    (document('<referencePlace id="r" ref="r"/>', A, T, arc("r", "t")), "the reference 'r' leads back to itself"),
    (document(place("a", TOOL.format(2, "")), T), "it was written for version '2' of hotlap's timing"),
    (document(place("a", TOOL.format(1, '<timedPlace speed="3"/>')), T), "takes 'timedPlace' with role, capacity, process"),
    (document(place("a", TOOL.format(1, '<timedPlace role="oven"/>')), T), "unknown role 'oven'"),
    (document(A, '<transition id="t">' + TOOL.format(1, '<timedTransition duration="0"/>') + "</transition>"), "duration of"),
    ("<a>" * 100 + "</a>" * 100, "elements are nested more than 64 deep"),
    (document(place("a", f"<name><text>{'x' * 20_000}</text></name>"), T), "a text is longer than 10,000 characters"),
    (document(*("<name/>" for _ in range(100_001))), "it has more than 100,000 elements"),
    (document(*(place(f"p{i}") for i in range(1_001)), T), "number of places must be a whole number from 1 to 1,000"),
    (LAUGHS, "a document type declaration .DOCTYPE. is not accepted"),
    (FILE_ENTITY, "a document type declaration .DOCTYPE. is not accepted"),
    (NET_ENTITY, "a document type declaration .DOCTYPE. is not accepted"),
    ('<?xml version="1.0" encoding="klingon"?><pnml/>', "unknown encoding|encoding is unknown"),
]

accesses = []  # while it is a list that is watched: what the interpreter opened or connected to
watched = False


def note_access(event, arguments):
    if watched and (event == "open" or event.startswith(("socket.", "urllib.", "subprocess.", "os.system"))):
        accesses.append((event, arguments))


sys.addaudithook(note_access)


@pytest.mark.parametrize(("text", "message"), BAD, ids=range(len(BAD)))
def test_bad_documents_give_one_line_and_touch_nothing(text, message):
    global watched
    accesses.clear()
    watched = True
    try:
        with pytest.raises(ValueError, match=message) as caught:
            parse_pnml(text, "bad.pnml")
    finally:
        watched = False
    assert accesses == []
    line = str(caught.value)
    assert line.startswith("petri: 'bad.pnml' is no net that can be loaded: ")
    assert "\n" not in line
    assert len(line) < 500


@pytest.mark.parametrize("large", [False, True])
def test_a_million_places_take_little_memory(tmp_path, large):
    path = tmp_path / "million.pnml"
    with path.open("w") as file:
        file.write(f'<pnml xmlns="{NAMESPACE}"><net id="n"><page id="g">')
        for thousand in range(1_000):
            width = 7 if large else 1
            file.write("".join(f'<place id="{i:0{width}}"/>' for i in range(thousand * 1_000, thousand * 1_000 + 1_000)))
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"it is larger than 16 MiB|it has more than 2,000 elements 'place'"):
        read_pnml(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * 2**20


def test_files_that_cannot_be_read(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    for path, message in (("none.pnml", "No such file"), (".", "no regular file|Is a directory"), ("pipe", "no regular file")):
        with pytest.raises(ValueError, match=f"petri: cannot read .*{message}"):
            read_pnml(tmp_path / path)


def test_damaged_documents_load_or_give_one_line():
    choose = random.Random(0)
    for _ in range(300):
        data = bytearray(WHOLE.encode())
        for _ in range(choose.randint(1, 4)):
            at = choose.randrange(len(data))
            data[at : at + choose.randint(0, 9)] = bytes(choose.randrange(256) for _ in range(choose.randint(0, 3)))
        try:
            parse_pnml(bytes(data))
        except ValueError as error:
            assert "\n" not in str(error)
