"""The true state of the network, what Blue's actions do to it, and what Red knows of it and can do to it."""

from dataclasses import dataclass, field

from hotlap.envs.cage2.chance import Chance
from hotlap.envs.cage2.scenario import (
    ALERT_PORT,
    BRUTE_FORCE_EVENTS,
    BY_SUBNET,
    DECOYS,
    FOOTHOLD,
    GATES,
    HOSTS,
    NUM_DECOYS,
    NUM_HOSTS,
    OP_SERVER,
    RANKING,
    REVEALS,
    SUBNET_TARGET,
    Attack,
    Exploit,
    Gain,
    Outcome,
    RedKind,
    Session,
    Subnet,
    Success,
)

SHELL_FILE, ESCALATION_FILE = 1, 2  # dense files that Analyse finds: of a reverse shell, of an escalation
FAILURE = Outcome(Success.NO)


@dataclass
class HostState:
    sessions: list[int] = field(default_factory=lambda: [0] * len(Session))  # of Red, by kind
    files: int = 0
    decoys: list[int] = field(default_factory=lambda: [0] * NUM_DECOYS)  # how many of each run


class Network:
    """Hosts, and the OT service of Op_Server0."""

    def __init__(self) -> None:
        self.hosts = [HostState() for _ in HOSTS]
        self.hosts[FOOTHOLD].sessions[Session.PRIVILEGED] = 1
        self.ot_running = True
        self.ot_active = True  # the flag that an Impact looks at
        self.ot_has_process = True  # whether the service's record knows its process; a Restore loses it for good

    def sockets(self, host: int) -> list[int]:
        """Listening ports, one for each socket."""
        decoys = zip(DECOYS, self.hosts[host].decoys, strict=True)
        return [*HOSTS[host].sockets, *(decoy.opened for decoy, count in decoys for _ in range(count))]

    def privileged(self, host: int) -> bool:
        return self.hosts[host].sessions[Session.PRIVILEGED] > 0

    def reachable(self, subnet: int) -> bool:
        """From User0: the operational subnet only while Red holds a session on a host of the enterprise."""
        return subnet != Subnet.OPERATIONAL or any(any(self.hosts[gate].sessions) for gate in GATES)

    # -- Blue --

    def remove(self, host: int) -> None:
        self.hosts[host].sessions[Session.ALERTED] = 0

    def restore(self, host: int) -> None:
        self.hosts[host] = HostState()
        if host == FOOTHOLD:
            self.hosts[host].sessions[Session.PRIVILEGED] = 1
        if host == OP_SERVER:
            self.ot_running, self.ot_active, self.ot_has_process = True, True, False

    def accepts(self, decoy: int, host: int) -> bool:
        return DECOYS[decoy].fits(HOSTS[host]) and DECOYS[decoy].checked not in self.sockets(host)

    def place(self, decoy: int, host: int) -> bool:
        if not self.accepts(decoy, host):
            return False
        self.hosts[host].decoys[decoy] += 1
        return True


@dataclass
class Knowledge:
    """What Red knows. It is never told that Blue changed something."""

    addresses: set[int] = field(default_factory=lambda: {FOOTHOLD})
    names: set[int] = field(default_factory=lambda: {FOOTHOLD})
    systems: set[int] = field(default_factory=set)  # hosts whose operating system it knows
    subnets: set[int] = field(default_factory=lambda: {int(Subnet.USER)})
    ports: list[set[int] | None] = field(default_factory=lambda: [None] * NUM_HOSTS)  # of the last scan that found any
    ot_service: bool = False


class Attacker:
    """Carries out Red's attacks, all of them from its session on User0."""

    def __init__(self, network: Network, knowledge: Knowledge, chance: Chance) -> None:
        self.network, self.knowledge, self.chance = network, knowledge, chance

    def carry_out(self, attack: Attack) -> Outcome:
        match attack.kind:
            case RedKind.SWEEP:
                return self._sweep(attack.target - SUBNET_TARGET)
            case RedKind.SCAN:
                return self._scan(attack.target)
            case RedKind.EXPLOIT:
                return self._exploit(attack.target)
            case RedKind.ESCALATE:
                return self._escalate(attack.target)
            case RedKind.IMPACT:
                return self._impact()
        return Outcome()

    def _sweep(self, subnet: int) -> Outcome:
        if not self.network.reachable(subnet):
            return FAILURE
        self.knowledge.addresses.update(BY_SUBNET[Subnet(subnet)])
        return Outcome(Success.YES)

    def _scan(self, host: int) -> Outcome:
        """Reports success even if the host cannot be reached; then it finds nothing and forgets nothing."""
        if not self.network.reachable(HOSTS[host].subnet):
            return Outcome(Success.YES)
        sockets = self.network.sockets(host)
        self.knowledge.ports[host] = set(sockets)
        return Outcome(Success.YES, events=tuple(sockets))

    def _exploit(self, host: int) -> Outcome:
        ports = self.knowledge.ports[host]
        if ports is None:
            return FAILURE
        options = [each for each in RANKING if each.port in ports and (not each.also or not ports.isdisjoint(each.also))]
        attempt = options[self.chance.exploit([each.exploit for each in options])]
        gain = HOSTS[host].services.get(attempt.exploit, Gain.NOTHING)
        ssh = attempt.exploit is Exploit.SSH_BRUTE_FORCE
        guesses = (attempt.port,) * BRUTE_FORCE_EVENTS
        if not self.network.reachable(HOSTS[host].subnet):
            return Outcome(Success.NO, attempt.exploit)
        if gain is Gain.NOTHING:
            if not self._decoy_catches(attempt.exploit, host):
                return Outcome(Success.NO, attempt.exploit)
            return Outcome(Success.NO, attempt.exploit, events=guesses if ssh else (attempt.port,) * 2)
        if gain is Gain.REFUSED:
            return Outcome(Success.NO, attempt.exploit, events=guesses)
        self.knowledge.names.add(host)
        self.knowledge.systems.add(host)
        if gain is Gain.LOGIN:
            self.network.hosts[host].sessions[Session.SSH] += 1
            return Outcome(Success.YES, attempt.exploit, events=(*guesses, attempt.port))
        return self._reverse_shell(host, attempt.exploit, attempt.port, gain)

    def _decoy_catches(self, exploit: Exploit, host: int) -> bool:
        running = self.network.hosts[host].decoys
        return any(count and decoy.catches is exploit for decoy, count in zip(DECOYS, running, strict=True))

    def _reverse_shell(self, host: int, exploit: Exploit, port: int, gain: Gain) -> Outcome:
        detected = self.chance.alert()
        kind = Session.PRIVILEGED if gain is Gain.ROOT_SHELL else Session.ALERTED if detected else Session.QUIET
        self.network.hosts[host].sessions[kind] += 1
        self.network.hosts[host].files |= SHELL_FILE
        return Outcome(Success.YES, exploit, detected, events=(port, ALERT_PORT) if detected else (port,))

    def _escalate(self, host: int) -> Outcome:
        sessions, escalated = self.network.hosts[host].sessions, 0
        if not any(sessions):
            return FAILURE
        if not sessions[Session.PRIVILEGED]:
            escalated = self.chance.session(sessions)
            sessions[escalated] -= 1
            sessions[Session.PRIVILEGED] += 1
            self.network.hosts[host].files |= ESCALATION_FILE
        self.knowledge.addresses.add(host)
        self.knowledge.subnets.add(int(HOSTS[host].subnet))
        if host in REVEALS:
            self.knowledge.addresses.add(REVEALS[host])
        if host == OP_SERVER:
            self.knowledge.ot_service = True
        return Outcome(Success.YES, escalated=escalated)

    def _impact(self) -> Outcome:
        """A user's session is enough. Without the process in its record, the service goes on."""
        network = self.network
        if not any(network.hosts[OP_SERVER].sessions) or not self.knowledge.ot_service:
            return FAILURE
        if network.ot_active and network.ot_has_process:
            network.ot_running = False
        network.ot_active = False
        return Outcome(Success.YES)
