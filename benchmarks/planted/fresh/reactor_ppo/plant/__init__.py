from .surrogate import Surrogate
from .env import ReactorEnv
