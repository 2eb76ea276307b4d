import json
import os

from stable_baselines3.common.callbacks import BaseCallback


class RunKeeper(BaseCallback):
    """Keeps the newest state of a run on disk, so that it can go on after the queue kills it."""

    def __init__(self, folder, every=1000, resume_state=True, verbose=0):
        super().__init__(verbose)
        self.folder, self.every, self.resume_state = folder, every, resume_state

    def _init_callback(self):
        os.makedirs(self.folder, exist_ok=True)

    def _on_step(self):
        if self.n_calls % self.every == 0:
            self.model.save(os.path.join(self.folder, "latest"))
            if self.resume_state:
                self.model.save_replay_buffer(os.path.join(self.folder, "latest_memory"))
            with open(os.path.join(self.folder, "progress.json"), "w") as f:
                json.dump({"steps": self.num_timesteps, "updates": self.model._n_updates}, f)
        return True
