"""CAGE Challenge 2: rules against hand-worked cases, action sets, the kernel against the reference bit for bit."""

import numpy as np
import pytest

import hotlap
from hotlap.envs.cage2 import options, truth
from hotlap.envs.cage2.actions import ALL, SETS, Command, Translator
from hotlap.envs.cage2.reference import Cage2
from hotlap.envs.cage2.scenario import ALERT_PORT, DECOYS, NAMES, BlueKind, RedAgent
from hotlap.envs.cage2.view import Activity, activity_of
from tests.lockstep import assert_lockstep

SLEEP = 0
APACHE, FEMITTER, HARAKA, SMSS, SSHD, SVCHOST, TOMCAT, VSFTPD = range(8)
HTTP, SSH, FTP, HTTPS = 3, 5, 8, 4
ENTERPRISE0, ENTERPRISE1, ENTERPRISE2, OP_SERVER, USER0, USER1, USER4 = 1, 2, 3, 7, 8, 9, 12


def analyse(host):
    return 2 + host


def remove(host):
    return 15 + host


def decoy(kind, host):
    return 28 + 13 * kind + host


def restore(host):
    return 132 + host


def scripted(*outcomes, red="b_line", length=100):
    """Where chance decides as told: (target, exploit, detected, escalated) of each step, the last for those that follow."""
    env = Cage2(red, length, replay=True)
    env.reset(options={"outcomes": [*outcomes, *[outcomes[-1]] * (length - len(outcomes))]})
    return env


def rewards(env, *actions):
    return [round(env.step(action)[1], 1) for action in actions]


# -- actions --


def test_actions_are_numbered_as_in_the_challenge():
    assert len(ALL) == 145
    assert [str(ALL[i]) for i in (0, 1, 2, 27, 28, 131, 132, 144)] == [
        "Sleep",
        "Monitor",
        "Analyse Defender",
        "Remove User4",
        "Apache on Defender",
        "Vsftpd on User4",
        "Restore Defender",
        "Restore User4",
    ]
    assert ALL[decoy(TOMCAT, OP_SERVER)] == Command(BlueKind.DECOY, OP_SERVER, (TOMCAT,))
    assert Cage2().describe_action(restore(OP_SERVER)) == "Restore Op_Server0"


def test_smaller_sets_of_actions():
    assert {name: len(commands) for name, commands in SETS.items()} == {"all": 145, "distinct": 81, "merged": 52}
    assert set(SETS["distinct"]) < set(ALL)
    lists = {NAMES[c.host]: [DECOYS[d].name for d in c.decoys] for c in SETS["merged"] if c.decoys}
    assert lists["Op_Server0"] == ["HarakaSMPT", "Tomcat", "Apache"]
    assert lists["Enterprise1"] == ["Femitter"]
    assert lists["User1"] == ["Tomcat", "Apache", "Smss", "Svchost"]
    assert "User4" not in lists and not any("Vsftpd" in names for names in lists.values())


def test_dropped_actions_change_nothing():
    """What `distinct` leaves out looks like Sleep."""
    dropped = [action for action, command in enumerate(ALL) if command not in SETS["distinct"]]
    assert len(dropped) == 64
    rng = np.random.default_rng(0)
    one, other = (hotlap.make_vec("cage2", 64, seed=1, red="meander") for _ in range(2))
    one.reset()
    other.reset()
    for _ in range(100):
        kept = rng.integers(0, 2, 64) * rng.integers(0, 145, 64)
        useless = np.isin(kept, dropped) | (rng.random(64) < 0.5)
        left = one.step(np.where(useless, rng.choice(dropped, 64), kept))
        right = other.step(np.where(useless, SLEEP, kept))
        np.testing.assert_array_equal(left[0], right[0])
        np.testing.assert_array_equal(left[1], right[1])


@pytest.mark.parametrize("name", SETS)
def test_a_translator_speaks_the_challenges_numbers(name):
    env = hotlap.make_vec("cage2", 5, seed=4, red="b_line", actions=name)
    full = hotlap.make_vec("cage2", 5, seed=4, red="b_line")
    translators, rng = [Translator(name) for _ in range(5)], np.random.default_rng(0)
    env.reset()
    full.reset()
    for _ in range(210):  # over the ends of episodes
        actions = rng.integers(0, len(SETS[name]), 5)
        obs, reward, _, truncated, _ = env.step(actions)
        other, same, *_ = full.step([each.translate(int(action)) for each, action in zip(translators, actions, strict=True)])
        np.testing.assert_array_equal(obs, other)
        np.testing.assert_array_equal(reward, same)
        for each in np.array(translators)[truncated]:
            each.reset()


# -- rules; that they are CybORG's is for test_cage2_recordings.py --


def test_b_line_all_the_way_by_logins():
    env = scripted((USER1, SSH, 0, 3))
    assert rewards(env, *[SLEEP] * 16) == [0] * 3 + [-0.1] * 3 + [-1.1] * 4 + [-2.1] * 3 + [-3.1] + [-13.1] * 2
    assert env.red.stage == 14 and not env.network.ot_running
    assert rewards(env, restore(OP_SERVER)) == [-1 - 2.1]  # Impact fails, the service runs again
    assert rewards(env, *[SLEEP] * 4) == [-2.1] * 2 + [-3.1] * 2  # escalates in vain, exploits, escalates, impacts: to no end
    assert env.network.ot_running and env.metrics() == (1, 2, 1)


def test_remove_kills_alerted_shells_only():
    for detected, left in ((1, 0), (0, 1)):
        env = scripted((USER4, HTTP, detected, 1))
        rewards(env, *[SLEEP] * 3)
        assert any(env.network.hosts[USER4].sessions)
        env.step(remove(USER4))
        assert sum(env.network.hosts[USER4].sessions) == left
    env = scripted((USER4, SSH, 0, 3))
    rewards(env, *[SLEEP] * 3)
    env.step(remove(USER4))
    assert any(env.network.hosts[USER4].sessions)


def test_analyse_finds_files_not_sessions():
    env = scripted((USER1, SSH, 0, 3))
    rewards(env, *[SLEEP] * 3)
    row = slice(4 * USER1, 4 * USER1 + 4)
    assert env.step(analyse(USER1))[0][row].tolist() == [0, 0, 0, 1]  # a login leaves none; user since the brute force
    assert env.step(analyse(USER1))[0][row].tolist() == [0, 0, 1, 1]  # its escalation did
    assert env.step(remove(USER1))[0][row].tolist() == [0, 0, 1, 0]
    assert env.step(restore(USER1))[0][row].tolist() == [0, 0, 0, 0]


def test_a_decoy_catches_what_red_remembers():
    env = scripted((USER1, SSH, 0, 3), (USER1, SSH, 0, 3), (USER1, HTTPS, 1, 0))
    env.step(decoy(TOMCAT, USER1))
    env.step(SLEEP)  # Red scans it
    assert env.step(SLEEP)[0][4 * USER1 : 4 * USER1 + 4].tolist() == [1, 0, 0, 0]  # a failure that looks like a scan
    assert env.outcome.exploit == HTTPS and env.attack.target == USER1 and not any(env.network.hosts[USER1].sessions)
    env.step(restore(USER1))  # Red still remembers the port
    assert env.outcome.exploit == HTTPS and env.outcome.events == ()


def test_vsftpd_can_be_stacked():
    env = Cage2("sleep")
    env.reset(seed=0)
    for action, success in ((VSFTPD, 1), (VSFTPD, 1), (APACHE, 0), (TOMCAT, 1), (TOMCAT, 0), (FEMITTER, 0)):
        env.step(decoy(action, OP_SERVER))
        assert env.blue_success == success
    assert env.network.sockets(OP_SERVER) == [22, 443, 80, 80]


@pytest.mark.parametrize(
    ("events", "placed", "activity"),
    [
        ([], False, Activity.NONE),
        ([], True, Activity.NONE),
        ([22], False, Activity.SCAN),
        ([22], True, Activity.NONE),
        ([22, 80], True, Activity.NONE),
        ([22, 21, 80], False, Activity.SCAN),
        ([80, 80], False, Activity.SCAN),
        ([80, 80], True, Activity.EXPLOIT),
        ([80, ALERT_PORT], False, Activity.EXPLOIT),
        ([80, ALERT_PORT], True, Activity.EXPLOIT),
        ([22] * 10, False, Activity.EXPLOIT),
    ],
)
def test_what_connections_look_like(events, placed, activity):
    assert activity_of(events, placed) is activity


def test_scan_inputs():
    env = Cage2("meander", 4, "scans", replay=True)
    env.reset(options={"outcomes": [(host, 0, 0, 0) for host in (-1, USER1, 11, USER0)]})
    shown = [env.step(SLEEP)[0][52:].tolist() for _ in range(4)]
    assert shown == [[0] * 10, [*[0] * 6, 2, 0, 0, 0], [*[0] * 6, 1, 0, 2, 0], [*[0] * 5, 2, 1, 0, 1, 0]]


# -- options and starts --


def test_each_environment_has_its_red_agent():
    for turbo in (True, False):
        env = hotlap.make_vec("cage2", 4, turbo=turbo, seed=0, red="sleep", episode_length=30)
        env.reset(
            options={"per_env": [{"red": "b_line"}, None, {"red": "meander", "episode_length": 15}, {"red": "b_line+meander"}]}
        )
        seen = []
        for _ in range(30 * 8):
            *_, truncated, info = env.step([SLEEP] * 4)
            if truncated.all():
                seen.append(info["final_info"]["red"].copy())
        assert [sorted(set(column)) for column in np.array(seen).T] == [[1], [0], [2], [1, 2]]


def test_mixed_reds_are_equally_likely():
    env = hotlap.make_vec("cage2", 3_000, seed=0, red="mixed", episode_length=1)
    env.reset()
    counts = np.bincount(env.step(np.zeros(3_000, np.int64))[-1]["final_info"]["red"].astype(int))
    assert len(counts) == len(RedAgent) and counts.min() > 920


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"red": "bline"}, "unknown red 'bline'; choose sleep, b_line, meander, several joined by [+], or mixed"),
        ({"red": 3}, "unknown red 3"),
        ({"red": "+".join(["b_line"] * 7)}, "6 agents at most, not 7"),
        ({"episode_length": 201}, "episode_length must be a whole number from 1 to 200"),
        ({"episode_length": True}, "not True"),
        ({"observation": "bits"}, "unknown observation 'bits'; choose one of table, scans, history, truth"),
        ({"actions": "few"}, "choose one of all, distinct, merged"),
        ({"green": "x"}, "unknown option"),
    ],
)
def test_wrong_options_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        hotlap.make_vec("cage2", 1, **wrong)


@pytest.mark.parametrize("turbo", [True, False])
@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"red": "x"}, "unknown red 'x'"),
        ({"agent": "x"}, "unknown reset option 'agent'; it takes red, episode_length, outcomes"),
        ({"outcomes": [(1, 2, 3, 0)]}, r"outcomes must be \[3, 4\] numbers, not \[1, 4\]"),
        ({"outcomes": [(16, 0, 0, 0)] * 3}, "target must be from -1 to 15"),
        ({"outcomes": [(0, 9, 0, 0)] * 3}, "exploit must be from 0 to 8"),
        ({"outcomes": [(0, 0, 0, 4)] * 3}, "escalated must be from 0 to 3"),
        ({"episode_length": 4}, "with replay, episode_length can be 3 at most, not 4"),
        ({"outcomes": "x"}, "outcomes must be whole numbers"),
        ({"outcomes": [(10**9, 0, 0, 4)] * 3}, "outcomes must be whole numbers"),
    ],
)
def test_wrong_starts_are_refused(turbo, start, message):
    env = hotlap.make_vec("cage2", 2, turbo=turbo, replay=True, episode_length=3, observation="truth")
    with pytest.raises(ValueError, match=message):
        env.reset(options=start)
    with pytest.raises(ValueError, match=r"it takes red, episode_length$"):
        hotlap.make_vec("cage2", 2, turbo=turbo).reset(options={"outcomes": []})


def test_wrong_actions_are_refused():
    env = Cage2()
    env.reset(seed=0)
    with pytest.raises(ValueError, match="from 0 to 144, not 145"):
        env.step(145)


# -- kernel against reference --


def some(mask, rng, num_actions):
    """Random actions, of which half are Sleep, or Red would get nowhere."""
    return rng.integers(0, num_actions, len(mask)) * (rng.random(len(mask)) < 0.5)


def compare_with_reference(num_envs, steps, seed, start=None, **chosen):
    kernel = hotlap.make_vec("cage2", num_envs, threads=2, seed=seed, **chosen)
    python = hotlap.make_vec("cage2", num_envs, turbo=False, seed=seed, **chosen)
    actions = len(kernel.game.commands)
    return assert_lockstep(kernel, python, steps, seed, start, choose=lambda mask, rng: some(mask, rng, actions))


CASES = [
    (10, 110, {"red": "mixed", "observation": "truth"}),
    (5, 110, {"red": "b_line+meander", "observation": "scans", "actions": "merged", "episode_length": 50}),
    (5, 70, {"red": "meander", "actions": "distinct", "episode_length": 30}),
    (5, 110, {"red": "mixed", "observation": "history", "actions": "merged"}),
]


@pytest.mark.parametrize("case", CASES)
def test_kernel_equals_reference(case):
    num_envs, steps, chosen = case
    assert compare_with_reference(num_envs, steps, 5, **chosen)


@pytest.mark.exact
@pytest.mark.parametrize("case", CASES)
def test_kernel_equals_reference_at_length(case):
    num_envs, steps, chosen = case
    ends = compare_with_reference(num_envs * 4, steps * 10, 7, **chosen)
    assert max(end["down"] for end in ends) > 10 or chosen.get("episode_length") == 30


def any_outcomes(length, rng):
    """What need not be possible at all."""
    return np.stack([rng.integers(low, high + 1, length) for low, high in options.LIMITS], 1)


@pytest.mark.parametrize("red", ["b_line", "meander"])
def test_any_outcomes_replay_alike(red):
    rng = np.random.default_rng(3)
    start = {"per_env": [{"outcomes": any_outcomes(100, rng), "red": red} for _ in range(4)]}
    compare_with_reference(4, 110, 3, start, observation="truth", replay=True)


# -- saving and showing --


@pytest.mark.parametrize("turbo", [True, False])
@pytest.mark.parametrize(
    "chosen",
    [
        {"observation": "scans", "actions": "merged"},
        {"observation": "history", "actions": "merged"},
        {"observation": "truth", "replay": True},
    ],
)
def test_states_are_saved_and_restored(turbo, chosen):
    rng = np.random.default_rng(3)
    outcomes = {"outcomes": any_outcomes(100, rng)} if "replay" in chosen else {}
    env, twin = (hotlap.make_vec("cage2", 3, turbo=turbo, seed=seed, **chosen) for seed in (1, 2))
    env.reset(options={"per_env": [{"red": name, **outcomes} for name in ("b_line", "meander", "mixed")]})
    twin.reset()
    actions = len(env.game.commands)
    for _ in range(45):
        env.step(some(np.zeros(3), rng, actions))
    np.testing.assert_array_equal(twin.load_state(env.state()), env.outcome(0)[0].obs)
    assert_lockstep(env, twin, 70, seed=2, reset=False, choose=lambda mask, rng: some(mask, rng, actions))


def test_the_state_vector_tells_all():
    """A game that is made from it goes on in the same way."""
    rng = np.random.default_rng(1)
    for red in ("b_line", "meander"):
        env, twin = Cage2(red, observation="truth"), Cage2(red, observation="truth")
        env.reset(seed=1)
        for step in range(100):
            twin.unpack(env.pack())
            np.testing.assert_array_equal(twin.observe(), env.observe())
            assert twin.render() == env.render()
            action = int(some([0], rng, 145)[0])
            left, right = env.step(action), twin.step(action)
            np.testing.assert_array_equal(left[0], right[0], str(step))
            assert left[1:] == right[1:]
    assert len(left[0]) == truth.SIZE


def test_drawn_for_people():
    env = scripted((USER1, SSH, 0, 3))
    assert "step 0 of 100   red: b_line   reward 0" in env.render()
    rewards(env, decoy(APACHE, USER1), SLEEP, restore(ENTERPRISE1))
    lines = env.render().splitlines()
    assert lines[:3] == [
        "step 3 of 100   red: b_line, stage 2   reward -1.0",
        "Blue  Restore Enterprise1",
        "Red   exploits User1 by ssh_brute_force works",
    ]
    assert "> User1        user        exploit   user           Apache" in lines
    assert "operational   closed" in lines
    rewards(env, *[SLEEP] * 12)
    assert "OT service is down" in env.render() and "operational   open" in env.render()
    assert "Red   impacts Op_Server0 works" in env.render()
