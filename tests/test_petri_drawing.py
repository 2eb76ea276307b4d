"""Schedules, Gantt charts and drawings of nets: what they say, and that they need nothing else."""

import itertools
import random
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hotlap.envs.petri.cluster import cluster_tool
from hotlap.envs.petri.drawing import layout, to_dot, to_svg
from hotlap.envs.petri.gantt import gantt_html, gantt_svg
from hotlap.envs.petri.net import NetBuilder
from hotlap.envs.petri.reference import PetriNet
from hotlap.envs.petri.schedule import schedule
from tests.petri_nets import random_net

SVG = "{http://www.w3.org/2000/svg}"


def one_by_one(wafers, inside):
    """A schedule of the cluster tool with at most `inside` wafers under way: the environment at its end, the actions."""
    env = PetriNet(wafers=wafers)
    env.reset()
    actions, over = [], False
    while not over:
        moves = [action for action in range(1, env.wait_action) if env.mask()[action]]
        under_way = env.now.tokens() - env.now.done() - env.now.counts[0]
        enter = env.mask()[0] and under_way < inside
        actions.append(moves[-1] if moves else 0 if enter else env.wait_action)
        _, _, terminated, truncated, _ = env.step(actions[-1])
        over = terminated or truncated
    return env, actions


def test_a_schedule_tells_who_was_where():
    env, actions = one_by_one(3, 2)
    made = schedule(env.net, actions)
    assert (made.makespan, made.finished, made.done, made.scrapped) == (env.metrics()[0], True, 3, ())
    assert len(made.firings) == 3 * 12
    assert schedule(env.net, [env.describe_action(action) for action in actions]) == made
    first = [stay for stay in made.stays if stay.token == 0]
    assert " ".join(stay.place.name for stay in first) == "LP d_s1 s1 d_s2 s2 d_s3 s3 d_s4 s4 d_s5 s5 d_done done"
    assert all(before.end == after.begin for before, after in itertools.pairwise(first))
    assert all(stay.end - stay.begin >= stay.place.process for stay in made.stays if stay.place.name != "done")


def test_a_schedule_says_what_is_wrong():
    net = cluster_tool(1)
    with pytest.raises(ValueError, match=r"t_s1 \(action 0 of the schedule\) is not legal in LP 1, TM2 1, TM3 1 at 0 s"):
        schedule(net, ["t_s1"])
    with pytest.raises(ValueError, match="there is no transition 'hop'; WAIT waits"):
        schedule(net, ["hop"])


def test_gantt_charts_show_every_stay_and_mark_scrap():
    net = cluster_tool(2)
    made = schedule(net, ["u_LP_s1", "t_s1", *["WAIT"] * 20, "u_LP_s1"])
    assert [stay.place.name for stay in made.scrapped] == ["s1"]
    chart = ElementTree.fromstring(gantt_svg(made))
    bars = [group.find(f"{SVG}title").text for group in chart.iter(f"{SVG}g")]
    assert bars == [
        "token 1 in s1: 5-115 s, ready at 75 s, scrap after 90 s",
        "token 1 in d_s1: 0-5 s, ready at 5 s",
        "token 2 in d_s1: 110-115 s, ready at 115 s",
    ]
    assert [bar.get("fill") for bar in chart.iter(f"{SVG}rect")].count("#d00") == 1
    assert len(ElementTree.fromstring(gantt_svg(made, "tokens")).findall(f"{SVG}g")) == 5
    with pytest.raises(ValueError, match="rows must be one of places, tokens, not 'robots'"):
        gantt_svg(made, "robots")


def test_the_page_needs_nothing_else():
    env, actions = one_by_one(3, 2)
    page = gantt_html(schedule(env.net, actions), title="<Three> wafers")
    assert "&lt;Three&gt; wafers" in page
    assert "36 firings, 3 of 3 tokens done, none scrapped." in page
    assert not re.search(r"(src|href)=|@import|url\(", page)
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}


def test_drawings_of_the_cluster_tool():
    net = cluster_tool(7)
    chart = ElementTree.fromstring(to_svg(net, [3, 2, 0, 0, 0, 0, 1, *[0] * 6, 1, 1]))
    titles = [title.text for title in chart.iter(f"{SVG}title")]
    assert "s1 (chamber): 70 s, scrap after +15 s, at most 2" in titles
    assert len(titles) == 15 + 12
    assert sum(circle.get("r") == "3.2" for circle in chart.iter(f"{SVG}circle")) == 3 + 2 + 1 + 1 + 1
    dot = to_dot(net)
    assert 'p0 [shape=circle, style=filled, fillcolor="#fff", label="LP\\n7"];' in dot
    assert dot.count("->") == 3 * 12 + 3  # two arcs on one side of each transition, one on the other, and three guards
    assert 'p1 -> t0 [arrowhead=odot, style=dashed, label="< 2"];' in dot


def test_any_net_can_be_drawn():
    odd = NetBuilder('"<&>').place('a"\\', tokens=9).place("alone").transition("<t>", ['a"\\'], []).build()
    for net in [odd, *(random_net(random.Random(seed)) for seed in range(40))]:
        ElementTree.fromstring(to_svg(net))
        assert to_dot(net).count("{") == to_dot(net).count("}") == 1
        places, transitions = layout(net)
        assert len({*places, *transitions}) == len(places) + len(transitions)  # none on top of another


def test_a_state_is_drawn_as_text():
    env = PetriNet(wafers=8)
    env.reset(options={"marking": {"LP": 7, "s1": [80], "TM2": 1, "TM3": 1}})
    lines = env.render().splitlines()
    assert lines[0] == "0 s   0 of 8 done"
    assert " ".join(lines[1].split()) == "LP 7 #1 0 s #2 0 s #3 0 s #4 0 s #5 0 s #6 0 s ..."
    assert env.draw()[2][1] == ("  #8 80 s", "bold red")


def test_the_examples_of_the_documentation_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parent.parent / "docs" / "petri-nets.md").read_text()
    names = {}
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(block, names)
    shown = capsys.readouterr().out
    assert "691 1350 2" in shown
    assert "[ True False False  True]" in shown
    assert "70 1" in shown
