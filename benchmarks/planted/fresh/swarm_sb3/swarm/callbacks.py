import csv

from stable_baselines3.common.callbacks import BaseCallback


class SwarmStats(BaseCallback):
    def __init__(self, path):
        super().__init__()
        self.path = path

    def _on_training_start(self):
        self.file = open(self.path, "w", newline="")
        self.rows = csv.writer(self.file)
        self.rows.writerow(["step", "reward", "speed"])

    def _on_step(self):
        reward = float(self.locals["rewards"].mean())
        speed = float(abs(self.locals["actions"]).mean())
        self.logger.record_mean("swarm/reward", reward)
        self.logger.record_mean("swarm/effort", speed)
        self.rows.writerow([self.num_timesteps, reward, speed])
        return True

    def _on_training_end(self):
        self.file.close()
