"""Connect Four as a PettingZoo AEC environment (small variant with forbidden repeats switched off)."""
import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv

try:
    from pettingzoo.utils import AgentSelector
except ImportError:
    from pettingzoo.utils import agent_selector as AgentSelector

ROWS, COLS = 6, 7


class ConnectFour(AECEnv):
    metadata = {"name": "connect_four_lite", "is_parallelizable": False, "render_modes": []}

    def __init__(self):
        super().__init__()
        self.possible_agents = ["player_0", "player_1"]
        self.action_spaces = {a: spaces.Discrete(COLS) for a in self.possible_agents}
        self.observation_spaces = {
            a: spaces.Dict({
                "observation": spaces.Box(0, 1, (2, ROWS, COLS), np.float32),
                "action_mask": spaces.Box(0, 1, (COLS,), np.int8),
            })
            for a in self.possible_agents
        }

    def observation_space(self, agent):
        return self.observation_spaces[agent]

    def action_space(self, agent):
        return self.action_spaces[agent]

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        self.board = [[0] * COLS for _ in range(ROWS)]
        self.heights = [0] * COLS
        self.history = []
        self.rewards = {a: 0.0 for a in self.agents}
        self._cumulative_rewards = {a: 0.0 for a in self.agents}
        self.terminations = {a: False for a in self.agents}
        self.truncations = {a: False for a in self.agents}
        self.infos = {a: {"last_move": None} for a in self.agents}
        self._selector = AgentSelector(self.agents)
        self.agent_selection = self._selector.reset()

    def legal_moves(self):
        return [c for c in range(COLS) if self.heights[c] < ROWS]

    def planes(self, agent):
        me = 1 if agent == "player_0" else 2
        b = np.array(self.board)
        return np.stack([b == me, b == 3 - me]).astype(np.float32)

    def observe(self, agent):
        mask = np.array([h < ROWS for h in self.heights], dtype=np.int8)
        return {"observation": self.planes(agent), "action_mask": mask}

    @property
    def over(self):
        return any(self.terminations.values())

    def _wins(self, r, c, who):
        for dr, dc in ((0, 1), (1, 0), (1, 1), (1, -1)):
            n = 1
            for s in (1, -1):
                i, j = r + s * dr, c + s * dc
                while 0 <= i < ROWS and 0 <= j < COLS and self.board[i][j] == who:
                    n += 1
                    i += s * dr
                    j += s * dc
            if n >= 4:
                return True
        return False

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            return self._was_dead_step(action)
        who = 1 if agent == "player_0" else 2
        r = self.heights[action]
        self.board[r][action] = who
        self.heights[action] += 1
        self.history.append({"agent": agent, "move": action, "row": r})
        self.infos[agent]["last_move"] = action
        self._clear_rewards()
        if self._wins(r, action, who):
            other = self.possible_agents[2 - who]
            self.rewards[agent], self.rewards[other] = 1.0, -1.0
            self.terminations = {a: True for a in self.agents}
        elif len(self.history) == ROWS * COLS:
            self.terminations = {a: True for a in self.agents}
        self.agent_selection = self._selector.next()
        self._accumulate_rewards()
