"""Random nets for tests, and an independent simulator of timed nets: slow, second by second, sharing no code with hotlap's."""

from hotlap.envs.petri.net import Net, NetBuilder, Role

LARGEST = {"max_places": 7, "max_transitions": 7, "max_tokens": 12, "max_arcs": 3}  # what `random_net` may give


def random_net(random, timed=True):
    """A net of all kinds of places, with weights, capacities, guards, sources, drains, self-loops and ways back."""
    net = NetBuilder("random", wait=random.choice([1, 5, 7]), max_tokens=LARGEST["max_tokens"])
    names = [f"p{i}" for i in range(random.randint(2, LARGEST["max_places"]))]
    total = 0
    for name in names:
        role = random.choice(list(Role)) if timed else Role.BUFFER
        tokens = min(random.choice([0, 1, 1, 2]), 10 - total)
        total += tokens
        timing = {}
        if timed and role is not Role.RESOURCE:
            timing["process"] = random.choice([0, 0, 3, 5, 11])
            if role is not Role.SINK:
                timing["residency"] = random.choice([None, None, 15, 40])
        net.place(name, tokens, random.choice([None, 3, 4]), role=role, **timing)
    back = None
    for i in range(random.randint(2, LARGEST["max_transitions"])):
        inputs, outputs = (
            {place: random.choice([1, 1, 1, 2]) for place in random.sample(names, min(random.choice(sizes), len(names)))}
            for sizes in ((1, 1, 2, 3), (0, 1, 1, 2, 3))
        )
        if back and random.random() < 0.6:
            inputs, outputs = back
        back = (outputs, inputs) if outputs else None
        below = {random.choice(names): random.randint(1, 3) if timed else 1} if random.random() < 0.2 else None
        net.transition(f"t{i}", inputs, outputs, below, random.choice([1, 5, 5, 8]))
    return net.build()


class EventSimulator:
    """The timed rules again, from the text of their docstrings: one list of tokens, one second at a time."""

    def __init__(self, net: Net, rewards, max_time, stop_when_dead) -> None:
        self.net, self.rewards, self.max_time, self.stop_when_dead = net, rewards, max_time, stop_when_dead
        self.clock = self.waited = self.serial = 0
        self.tokens = []  # dicts, in the order in which they came to their places
        self.resources = {}
        for place in net.places:
            if place.role == "resource":
                self.resources[place.name] = place.tokens
            else:
                for _ in range(place.tokens):
                    self._add(len(self.tokens), place.name)

    def _add(self, identity, place):
        self.serial += 1
        self.tokens.append({"id": identity, "place": place, "since": self.clock, "serial": self.serial})

    def held(self, place):
        if place in self.resources:
            return self.resources[place]
        return sum(token["place"] == place for token in self.tokens)

    def line(self, place):
        return sorted((token for token in self.tokens if token["place"] == place), key=lambda token: token["serial"])

    def place(self, name):
        return next(place for place in self.net.places if place.name == name)

    def possible(self, transition, at_once=True):
        before = {place.name: self.held(place.name) for place in self.net.places}
        middle = dict(before)
        for arc in transition.inputs:
            middle[arc.place] -= arc.weight
        after = dict(middle)
        for arc in transition.outputs:
            after[arc.place] += arc.weight
        if min(middle.values()) < 0 or any(before[guard.place] >= guard.below for guard in transition.guards):
            return False
        for place in self.net.places:
            grown = after[place.name] > before[place.name]
            if grown and place.capacity is not None and after[place.name] > place.capacity:
                return False
        now, then = (sum(n for name, n in marking.items() if name not in self.resources) for marking in (before, after))
        if then > now and then > self.net.token_limit:
            return False
        needed = [token for arc in transition.inputs for token in self.line(arc.place)[: arc.weight]] if at_once else []
        return all(self.clock - token["since"] >= self.place(token["place"]).process for token in needed)

    def legal(self):
        return [self.possible(transition) for transition in self.net.transitions]

    def act(self, transition):
        """Fire a transition, None: wait. Returns reward, terminated, truncated."""
        arrived_before = sum(self.place(token["place"]).role == "sink" for token in self.tokens)
        waited_before = self.waited
        if transition is None:
            seconds = self.net.wait
            self.waited += seconds
        else:
            seconds, self.waited = transition.duration, 0
            self._move(transition)
        worked = over = late = 0
        for _ in range(seconds):
            for token in self.tokens:
                place, stay = self.place(token["place"]), self.clock - token["since"]
                if place.role == "chamber":
                    worked, over = (worked + 1, over) if stay < place.process else (worked, over + 1)
                elif place.role == "transport":
                    late += stay >= self.rewards.transport_grace
            self.clock += 1
        return self._judge(seconds, worked, over, late, arrived_before, waited_before)

    def _move(self, transition):
        hands = []
        for arc in transition.inputs:
            if arc.place in self.resources:
                self.resources[arc.place] -= arc.weight
            else:
                for token in self.line(arc.place)[: arc.weight]:
                    hands.append(token["id"])
                    self.tokens.remove(token)
        for arc in transition.outputs:
            if arc.place in self.resources:
                self.resources[arc.place] += arc.weight
                continue
            for _ in range(arc.weight):
                used = {token["id"] for token in self.tokens}
                self._add(hands.pop(0) if hands else min(set(range(1_000)) - used), arc.place)

    def _judge(self, seconds, worked, over, late, arrived_before, waited_before):
        worth, places = self.rewards, [self.place(token["place"]) for token in self.tokens]
        arrived = sum(place.role == "sink" for place in places)
        reward = worth.time * seconds + worth.processing * worked + worth.chamber_overtime * over
        reward += worth.transport_overtime * late + worth.token * (arrived - arrived_before)
        if waited_before < worth.waiting_limit <= self.waited:
            reward += worth.waiting
        overdue = any(
            place.residency is not None and self.clock - token["since"] > place.process + place.residency
            for token, place in zip(self.tokens, places, strict=True)
        )
        stuck = self.stop_when_dead and not any(self.possible(transition, False) for transition in self.net.transitions)
        if arrived and arrived == len(self.tokens):
            return reward + worth.finish, True, False
        if overdue:
            return reward + worth.scrap, True, False
        if stuck:
            return reward + worth.deadlock, True, False
        timeout = self.clock >= self.max_time
        return reward + worth.timeout * timeout, False, timeout
