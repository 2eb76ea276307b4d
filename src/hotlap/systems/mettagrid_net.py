"""The networks of MettaGrid: tokens -> box -> two convolutions -> dense layers -> LSTM -> heads.

`--net box` makes the box and then convolves it, as the original guide's model does, with every feature's value as a number.
`--net tokens` convolves the tokens themselves (`train/tokens`), and has a plane for each direction, colour and action. What
kind of object the mettagrid package shows is a plane for each kind in both.
"""

from typing import Any

from hotlap.envs.metta import features
from hotlap.envs.mettagrid.objects import COLOUR, FACING, FEATURE_MAX, LAST_ACTION
from hotlap.envs.mettagrid.tokens import WINDOW
from hotlap.envs.spec import EnvSpec
from hotlap.train.nets import Policy, policy_of
from hotlap.train.tokens import Planes, WindowEncoder

CATEGORIES = (FACING, COLOUR, LAST_ACTION)
GUEST_CATEGORIES = {"tag": 15.0, "last_action": 15.0}  # of the mettagrid package, and their largest values here


def planes_of(config: Any, categories: tuple[int, ...] = ()) -> Planes:
    if config.engine == "own":
        return Planes(FEATURE_MAX, categories)
    known = features()
    most = {number: GUEST_CATEGORIES.get(name, largest) for name, (number, largest) in known.items()}
    return Planes([most[number] for number in sorted(most)], [known[name][0] for name in GUEST_CATEGORIES])


def tokens_policy(config: Any, spec: EnvSpec, outputs: int, deviations: int) -> Policy:
    return policy_of(config, WindowEncoder(planes_of(config, CATEGORIES), WINDOW), outputs, deviations)


def box_policy(config: Any, spec: EnvSpec, outputs: int, deviations: int) -> Policy:
    return policy_of(config, WindowEncoder(planes_of(config), WINDOW, sparse=False), outputs, deviations)
