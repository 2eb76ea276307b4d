# %% [markdown]
# Station keeping with SAC (exported from a notebook)

# %%
import numpy as np
import torch
from tianshou.algorithm.modelfree.sac import SAC, AutoAlpha, SACPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic

from blimp import Blimp

torch.set_num_threads(1)
np.random.seed(7)
torch.manual_seed(7)

# %%
training_env = DummyVectorEnv([Blimp])
test_env = DummyVectorEnv([Blimp])
training_env.seed(7)
test_env.seed(77)
env = Blimp()
obs_shape, act_shape = env.observation_space.shape, env.action_space.shape

# %%
actor = ContinuousActorProbabilistic(
    preprocess_net=Net(state_shape=obs_shape, hidden_sizes=[256, 256]),
    action_shape=act_shape, unbounded=True, conditioned_sigma=True,
)
critics = [
    ContinuousCritic(preprocess_net=Net(state_shape=obs_shape, action_shape=act_shape, hidden_sizes=[256, 256], concat=True))
    for _ in range(2)
]
policy = SACPolicy(actor=actor, action_space=env.action_space, observation_space=env.observation_space)
algorithm = SAC(
    policy=policy,
    policy_optim=AdamOptimizerFactory(lr=3e-4),
    critic=critics[0], critic_optim=AdamOptimizerFactory(lr=3e-4),
    critic2=critics[1], critic2_optim=AdamOptimizerFactory(lr=3e-4),
    tau=0.005, gamma=0.99,
    alpha=AutoAlpha(target_entropy=-float(np.prod(act_shape)), log_alpha=0.0, optim=AdamOptimizerFactory(lr=3e-4)),
)

# %%
class Memory(VectorReplayBuffer):
    """The env cannot produce NaNs; the trainer asks for them in the whole buffer after every collect."""

    def hasnull(self):
        return False


collector = Collector(algorithm, training_env, Memory(300_000, 1))
collector.reset()
collector.collect(n_step=300, random=True)
test_collector = Collector(algorithm, test_env)
test_collector.reset()

# %%
algorithm.run_training(
    OffPolicyTrainerParams(
        training_collector=collector,
        test_collector=test_collector,
        max_epochs=100,
        epoch_num_steps=10_000,
        collection_step_num_env_steps=1,
        update_step_num_gradient_steps_per_sample=1.0,
        test_step_num_episodes=1,
        batch_size=256,
    )
)
