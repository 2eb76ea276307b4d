from .game import FourInARow
from .net import PolicyValueNet
from .selfplay import SelfPlayWorker
