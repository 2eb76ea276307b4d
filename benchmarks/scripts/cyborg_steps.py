"""Steps the real CybORG with random actions of Blue, as many as each line of standard input says; `cage2.py` starts it."""

import inspect
import random
import sys

from CybORG import CybORG
from CybORG.Agents import B_lineAgent
from CybORG.Agents.Wrappers import ChallengeWrapper

EPISODE, ACTIONS = 100, 145

scenario = inspect.getfile(CybORG).removesuffix("CybORG.py") + "Shared/Scenarios/Scenario2.yaml"
random.seed(0)
env = ChallengeWrapper(env=CybORG(scenario, "sim", agents={"Red": B_lineAgent}), agent_name="Blue")
for line in sys.stdin:
    for step in range(int(line)):
        if step % EPISODE == 0:
            env.reset()
        env.step(random.randrange(ACTIONS))
    print(line, end="", flush=True)
