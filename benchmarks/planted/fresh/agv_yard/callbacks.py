from collections import deque

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback


class DrivingStats(BaseCallback):
    """Success rate and travelled distance."""

    def __init__(self):
        super().__init__()
        self.success = deque(maxlen=100)
        self.last_pose = {}
        self.metres = 0.0

    def _on_step(self):
        for i, (info, done) in enumerate(zip(self.locals["infos"], self.locals["dones"])):
            pose = info["pose"]
            if i in self.last_pose:
                self.metres += float(np.hypot(*(pose - self.last_pose[i])[:2]))
            self.last_pose[i] = pose
            if done:
                self.success.append(bool(info["success"]))
                self.last_pose.pop(i, None)
        return True

    def _on_rollout_end(self):
        if self.success:
            self.logger.record("agv/success_rate", float(np.mean(self.success)))
        self.logger.record("agv/metres", self.metres)
