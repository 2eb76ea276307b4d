"""The paths of the stages that hooks and rules use: their places in the tree of stages."""

from hotlap.core import stages

ACT = f"{stages.COLLECT}/{stages.ACT}"
STEP = f"{stages.COLLECT}/{stages.ENV_STEP}"
RESET = f"{stages.COLLECT}/{stages.ENV_RESET}"
STORE = f"{stages.COLLECT}/{stages.STORE}"
WAIT = f"{stages.COLLECT}/{stages.WAIT}"
LOSS = f"{stages.UPDATE}/{stages.LOSS}"
BACKWARD = f"{stages.UPDATE}/{stages.BACKWARD}"
OPTIMIZER = f"{stages.UPDATE}/{stages.OPTIMIZER}"
TARGET = f"{stages.UPDATE}/{stages.TARGET}"
ENVIRONMENT = (STEP, RESET, WAIT)

STEP_METHODS = ("step", "advance", "tick", "transition")  # of environments, by what they are usually called
