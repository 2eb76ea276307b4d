"""The blue policies that played the recordings of CybORG, for many environments at once: `act(table) -> actions`."""

import numpy as np

from hotlap.envs.cage2.actions import ALL
from hotlap.envs.cage2.network import Network
from hotlap.envs.cage2.scenario import DECOYS, NAMES, NUM_DECOYS, NUM_HOSTS

SLEEP, MONITOR, ANALYSE, REMOVE, DECOY, RESTORE = 0, 1, 2, 15, 28, 132
PRIORITY = [NAMES.index(name) for name in ("Op_Server0", "Enterprise2", "Enterprise1", "Enterprise0")]
PRIORITY += [4, 5, 6, 9, 10, 11, 12, 0]
PLAN = """HarakaSMPT@Op_Server0 HarakaSMPT@Enterprise0 Femitter@Enterprise2 Femitter@Enterprise1 Tomcat@Op_Server0
Tomcat@Enterprise0 Apache@Op_Server0 Apache@Enterprise0 Vsftpd@Op_Server0 Vsftpd@Enterprise0 Smss@User1 Tomcat@User1
Svchost@User1 Apache@User1 Femitter@User2 Tomcat@User2 Apache@User2 SSHD@User2 SSHD@User3 Vsftpd@User3 Vsftpd@User4
HarakaSMPT@Op_Host0 HarakaSMPT@Op_Host1 HarakaSMPT@Op_Host2"""
DECOY_NAMES = [decoy.name for decoy in DECOYS]


def plan():
    """(host, action) of each decoy of the defender's plan."""
    placed = [entry.split("@") for entry in PLAN.split()]
    pairs = [(DECOY_NAMES.index(decoy), NAMES.index(host)) for decoy, host in placed]
    return [(host, DECOY + NUM_HOSTS * decoy + host) for decoy, host in pairs]


class Policy:
    def __init__(self, num_envs, seed):
        self.num_envs, self.rng = num_envs, np.random.default_rng(seed)

    def hosts(self):
        return self.rng.integers(0, NUM_HOSTS, self.num_envs)

    def kinds(self, *shares):
        return self.rng.choice(len(shares), self.num_envs, p=shares)


class Sleep(Policy):
    def act(self, table):
        return np.zeros(self.num_envs, np.int64)


class Uniform(Policy):
    def act(self, table):
        return self.rng.integers(0, len(ALL), self.num_envs)


class Weighted(Policy):
    possible = [[d for d in range(NUM_DECOYS) if Network().accepts(d, h)] for h in range(NUM_HOSTS)]

    def act(self, table):
        hosts, kinds = self.hosts(), self.kinds(0.08, 0.22, 0.25, 0.10, 0.35)
        fitting = np.array([self.rng.choice(self.possible[host]) for host in hosts])
        decoys = np.where(self.rng.random(self.num_envs) < 0.8, fitting, self.rng.integers(0, NUM_DECOYS, self.num_envs))
        placed = DECOY + NUM_HOSTS * decoys + hosts
        return np.choose(kinds, [np.full_like(hosts, MONITOR), ANALYSE + hosts, REMOVE + hosts, RESTORE + hosts, placed])


class Gatekeeper(Policy):
    def act(self, table):
        gates = RESTORE + self.rng.integers(1, 4, self.num_envs)
        return np.choose(self.kinds(0.6, 0.2, 0.2), [gates, np.zeros_like(gates), ANALYSE + self.hosts()])


class Resetter(Policy):
    def act(self, table):
        gates = RESTORE + self.rng.integers(1, 4, self.num_envs)
        return np.choose(self.kinds(0.4, 0.2, 0.4), [gates, np.full_like(gates, RESTORE + PRIORITY[0]), np.zeros_like(gates)])


class Defender(Policy):
    """Restores, removes and analyses what looks compromised; else places decoys by a plan; else looks around."""

    def __init__(self, num_envs, seed):
        super().__init__(num_envs, seed)
        self.plan = plan()
        self.todo = [list(self.plan) for _ in range(num_envs)]
        self.checked = [set() for _ in range(num_envs)]
        self.counter = [0] * num_envs

    def act(self, table):
        compromise = table[:, : 4 * NUM_HOSTS].reshape(-1, NUM_HOSTS, 4)[:, :, 2:] @ np.array([2, 1])
        return np.array([self._act(row, [levels[h] for h in PRIORITY]) for row, levels in enumerate(compromise.tolist())])

    def _act(self, row, levels):
        todo, checked = self.todo[row], self.checked[row]
        if 3 in levels:
            host = PRIORITY[levels.index(3)]
            todo[:0] = [entry for entry in self.plan if entry[0] == host and entry not in todo]
            checked.discard(host)
            return RESTORE + host
        if 1 in levels:
            host = PRIORITY[levels.index(1)]
            checked.discard(host)
            return REMOVE + host
        for host, level in zip(PRIORITY, levels, strict=True):
            if level == 2 and host not in checked:
                checked.add(host)
                return ANALYSE + host
        if todo:
            return todo.pop(0)[1]
        self.counter[row] += 1
        return MONITOR if self.counter[row] % 4 == 0 else ANALYSE + PRIORITY[self.counter[row] % len(PRIORITY)]


POLICIES = (Sleep, Uniform, Weighted, Defender, Gatekeeper, Resetter)  # by `blue_policy` of the recordings
