import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed

from models import Policy, Value
from tasks.reacher import ReacherVec

torch.set_num_threads(1)
set_seed(42)

env = wrap_env(ReacherVec(num_envs=64))
device = env.device

cfg = PPO_CFG()
cfg.rollouts = 16
cfg.learning_epochs = 4
cfg.mini_batches = 64
cfg.discount_factor = 0.98
cfg.gae_lambda = 0.95
cfg.learning_rate = 3e-4
cfg.grad_norm_clip = 0.5
cfg.ratio_clip = 0.2
cfg.value_clip = 0.2
cfg.entropy_loss_scale = 0.002
cfg.value_loss_scale = 1.0
cfg.observation_preprocessor = RunningStandardScaler
cfg.observation_preprocessor_kwargs = {"size": env.observation_space, "device": device}
cfg.value_preprocessor = RunningStandardScaler
cfg.value_preprocessor_kwargs = {"size": 1, "device": device}
cfg.experiment.directory = "runs"
cfg.experiment.experiment_name = "reacher"
cfg.experiment.write_interval = 500
cfg.experiment.checkpoint_interval = 20000

models = {
    "policy": Policy(env.observation_space, env.action_space, device),
    "value": Value(env.observation_space, env.action_space, device),
}
memory = RandomMemory(memory_size=cfg.rollouts, num_envs=env.num_envs, device=device)
agent = PPO(
    models=models, memory=memory, cfg=cfg, device=device,
    observation_space=env.observation_space, action_space=env.action_space,
)

trainer = SequentialTrainer(cfg={"timesteps": 800_000, "headless": True}, env=env, agents=agent)
trainer.train()
