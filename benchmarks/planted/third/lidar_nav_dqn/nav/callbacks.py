import logging
import os
import time

from stable_baselines3.common.callbacks import BaseCallback

log = logging.getLogger(__name__)


class PreemptionGuard(BaseCallback):
    """Jobs on the `short` queue get killed without notice: keep a resumable state on disk.

    Writes to a temporary name first, so a kill in the middle leaves the previous state intact.
    """

    def __init__(self, folder, every=1500, buffer=True):
        super().__init__()
        self.folder = folder
        self.every = every
        self.buffer = buffer
        self._next = every

    def _init_callback(self):
        os.makedirs(self.folder, exist_ok=True)

    def _swap(self, name):
        os.replace(os.path.join(self.folder, "tmp_" + name), os.path.join(self.folder, name))

    def _on_step(self):
        if self.num_timesteps < self._next:
            return True
        self._next += self.every
        self.model.save(os.path.join(self.folder, "tmp_model.zip"))
        self._swap("model.zip")
        if self.buffer:
            self.model.save_replay_buffer(os.path.join(self.folder, "tmp_replay.pkl"))
            self._swap("replay.pkl")
        return True


class EpisodeStats(BaseCallback):
    def __init__(self, every=20_000):
        super().__init__()
        self.every = every
        self._next = every
        self._t0 = time.time()

    def _on_step(self):
        if self.num_timesteps >= self._next:
            self._next += self.every
            eps = self.model.ep_info_buffer
            ret = sum(e["r"] for e in eps) / max(len(eps), 1)
            ok = self.model.ep_success_buffer
            rate = sum(ok) / max(len(ok), 1)
            log.info("%8d steps  %6.0f s  return %7.2f  success %.2f  eps %.2f", self.num_timesteps,
                     time.time() - self._t0, ret, rate, self.model.exploration_rate)
        return True
