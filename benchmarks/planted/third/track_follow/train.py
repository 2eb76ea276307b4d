"""PPO on the track with skrl; a video of the final policy is written at the end."""
import os

import cv2
import gymnasium as gym
import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.trainers.torch import SequentialTrainer, SequentialTrainerCfg
from skrl.utils import set_seed

from car_env import TrackEnv
from models import Critic, Driver

NUM_ENVS = 8
ROLLOUTS = 64
TIMESTEPS = 400_000

set_seed(17)
cv2.setNumThreads(1)
torch.set_num_threads(1)


def make_env():
    return TrackEnv(render_mode="rgb_array")


def build_agent(env):
    device = env.device
    spaces = (env.observation_space, env.action_space, device)
    models = {"policy": Driver(*spaces), "value": Critic(*spaces)}
    memory = RandomMemory(memory_size=ROLLOUTS, num_envs=env.num_envs, device=device)
    cfg = PPO_CFG(
        rollouts=ROLLOUTS,
        learning_epochs=4,
        mini_batches=2,
        discount_factor=0.98,
        gae_lambda=0.95,
        learning_rate=5e-4,
        grad_norm_clip=0.5,
        ratio_clip=0.2,
        value_clip=0.2,
        entropy_loss_scale=0.001,
        value_loss_scale=1.0,
    )
    cfg.experiment.directory = "runs"
    cfg.experiment.experiment_name = "track"
    cfg.experiment.write_interval = 2000
    cfg.experiment.checkpoint_interval = 20_000
    return PPO(models=models, memory=memory, cfg=cfg, observation_space=env.observation_space,
               action_space=env.action_space, device=device)


@torch.no_grad()
def record_video(agent, path="track.mp4", steps=300):
    env = make_env()
    obs, _ = env.reset(seed=0)
    out = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*"mp4v"), env.metadata["render_fps"],
                          (env.image_size, env.image_size))
    for _ in range(steps):
        out.write(cv2.cvtColor(env.render(), cv2.COLOR_RGB2BGR))
        _, outputs = agent.policy.act({"observations": torch.as_tensor(obs).unsqueeze(0)}, role="policy")
        obs, _, terminated, truncated, _ = env.step(outputs["mean_actions"][0].numpy())
        if terminated or truncated:
            break
    out.release()


if __name__ == "__main__":
    env = wrap_env(gym.vector.SyncVectorEnv([make_env for _ in range(NUM_ENVS)]), verbose=False)
    agent = build_agent(env)
    trainer = SequentialTrainer(cfg=SequentialTrainerCfg(timesteps=TIMESTEPS), env=env, agents=agent)
    trainer.train()
    agent.save(os.path.join("runs", "track", "final.pt"))
    record_video(agent)
