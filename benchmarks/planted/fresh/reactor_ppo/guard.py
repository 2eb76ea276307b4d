import gc
import logging

import psutil
import torch
from stable_baselines3.common.callbacks import BaseCallback

log = logging.getLogger(__name__)


class MemoryGuard(BaseCallback):
    """The first long run was killed by the OOM killer; keep an eye on the process and stop in time."""

    def __init__(self, limit_mb, check_every=4):
        super().__init__()
        self.limit_mb, self.check_every = limit_mb, check_every
        self.proc = psutil.Process()

    def _release(self):
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _on_step(self):
        if self.n_calls % self.check_every == 0:
            self._release()
        return True

    def _on_rollout_end(self):
        mb = self.proc.memory_info().rss / 2**20
        self.logger.record("system/rss_mb", mb)
        if mb > self.limit_mb:
            log.warning("rss %.0f MB", mb)
