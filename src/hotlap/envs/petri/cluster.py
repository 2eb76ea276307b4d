"""The cluster tool: wafers go from a load port through five stations to the end, moved by two robots. The default net."""

from hotlap.envs.petri.net import MAX_TOKENS, Net, NetBuilder, Role

MOVE = 5  # seconds that a firing takes, and that a wafer is on its way at least
RESIDENCY = 15  # seconds that a processed wafer may stay in s1, s3 and s5
GUARDED = ("s1", "s3", "s5")  # no wafer is fetched for these while they are full

# name, capacity, process time in seconds, residency, role
STATIONS = (
    ("s1", 2, 70, RESIDENCY, Role.CHAMBER),
    ("s2", 1, 0, None, Role.BUFFER),
    ("s3", 2, 300, RESIDENCY, Role.CHAMBER),
    ("s4", 1, 70, None, Role.CHAMBER),
    ("s5", 2, 70, RESIDENCY, Role.CHAMBER),
)
ROBOT = {"s1": "TM2", "s2": "TM2", "s3": "TM3", "s4": "TM3", "s5": "TM2", "done": "TM2"}  # who brings a wafer there


def cluster_tool(wafers: int = 12, guards: bool = True) -> Net:
    """15 places and 12 transitions. A hop from A to B: `u_A_B` picks a wafer up (A + robot -> d_B), `t_B` puts it down
    (d_B -> B + robot)."""
    if isinstance(wafers, bool) or not isinstance(wafers, int) or not 1 <= wafers <= MAX_TOKENS:
        raise ValueError(f"petri: wafers must be a whole number from 1 to {MAX_TOKENS:,}, not {wafers!r}")
    net = NetBuilder("cluster tool", wait=MOVE)
    net.place("LP", tokens=wafers)
    for name, capacity, process, residency, role in STATIONS:
        net.place(name, capacity=capacity, process=process, residency=residency, role=role)
    net.place("done", role=Role.SINK)
    for target in ROBOT:
        net.place(f"d_{target}", capacity=2, process=MOVE, role=Role.TRANSPORT)
    for robot in ("TM2", "TM3"):
        net.place(robot, tokens=1, role=Role.RESOURCE)
    capacities = {name: capacity for name, capacity, *_ in STATIONS}
    for source, target in zip(("LP", *capacities), ROBOT, strict=True):
        below = {target: capacities[target]} if guards and target in GUARDED else None
        net.transition(f"u_{source}_{target}", [source, ROBOT[target]], [f"d_{target}"], below, MOVE)
        net.transition(f"t_{target}", [f"d_{target}"], [target, ROBOT[target]], duration=MOVE)
    return net.build()
