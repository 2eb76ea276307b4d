from .board import BlockFall
from .keeper import RunKeeper
