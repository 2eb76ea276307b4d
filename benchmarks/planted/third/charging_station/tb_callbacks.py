"""Custom metrics in TensorBoard, see the SB3 docs on `TensorboardCallback`."""
import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

KEYS = ("delivered_kwh", "missed_kwh", "grid_kw", "overload_kw")


class StationMetrics(BaseCallback):
    """Grid and service figures of the station, averaged over the parallel stations."""

    def __init__(self, verbose=0):
        super().__init__(verbose)
        self.served = 0.0

    def _on_step(self) -> bool:
        infos = self.locals["infos"]
        for key in KEYS:
            self.logger.record(f"station/{key}", sum(i[key] for i in infos) / len(infos))
        self.served += sum(i["delivered_kwh"] for i in infos)
        self.logger.record("station/total_served_mwh", self.served / 1000.0)
        self.logger.record("station/reward", float(np.mean(self.locals["rewards"])))
        self.logger.dump(self.num_timesteps)
        return True


class WeightNorms(BaseCallback):
    """Once per rollout: are the networks still sane?"""

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        for name, p in self.model.policy.named_parameters():
            if name.endswith("weight"):
                self.logger.record(f"norms/{name}", float(p.detach().norm()))
