import hydra
import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf
from stable_baselines3 import TD3
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise

from arm import PlanarArm


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg: DictConfig):
    torch.set_num_threads(1)
    env = Monitor(PlanarArm(**cfg.env), info_keywords=("is_success",))
    agent = OmegaConf.to_container(cfg.agent)
    agent["train_freq"] = tuple(agent["train_freq"])
    n = env.action_space.shape[0]
    model = TD3("MlpPolicy", env, action_noise=NormalActionNoise(np.zeros(n), cfg.noise * np.ones(n)),
                policy_kwargs=dict(net_arch=list(cfg.net)), seed=cfg.seed, device="cpu", verbose=1, **agent)
    model.learn(cfg.total_timesteps, log_interval=5)
    model.save("td3_arm")


if __name__ == "__main__":
    main()
