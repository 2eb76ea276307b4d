# tianshou 2 port of my old ppo script (was 0.5.1), works again since aug.
import argparse
import os
import pprint
import time

import gymnasium as gym
import numpy as np
import torch
from gymnasium.wrappers import TransformReward
from torch import nn

from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, SubprocVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import ActorCritic, Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from tianshou.utils.space_info import SpaceInfo

HERE = os.path.dirname(os.path.abspath(__file__))


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--task", default="CartPole-v1")
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--lr", type=float, default=4e-4)
    p.add_argument("--gamma", type=float, default=0.99)
    p.add_argument("--gae-lambda", type=float, default=0.95)
    p.add_argument("--epochs", type=int, default=2000)
    p.add_argument("--steps-per-epoch", type=int, default=8192)
    p.add_argument("--steps-per-collect", type=int, default=2048)
    p.add_argument("--repeat", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=256)
    p.add_argument("--hidden", type=int, nargs="*", default=[64, 64])
    p.add_argument("--train-num", type=int, default=16)
    p.add_argument("--test-num", type=int, default=4)
    p.add_argument("--ent", type=float, default=0.003)
    p.add_argument("--clip", type=float, default=0.2)
    p.add_argument("--vf", type=float, default=0.5)
    p.add_argument("--max-grad-norm", type=float, default=0.5)
    p.add_argument("--out", default=os.path.join(HERE, "runs"))
    p.add_argument("--watch", action="store_true")  # todo bring back
    return p.parse_args()


class PoleJitter(gym.Wrapper):
    """randomise the pole a bit so that the policy is not glued to one length"""

    def __init__(self, env, lo=0.35, hi=0.7):
        super().__init__(env)
        self.lo, self.hi = lo, hi

    def reset(self, *, seed=None, options=None):
        obs, info = self.env.reset(seed=seed, options=options)
        u = self.env.unwrapped
        u.length = float(u.np_random.uniform(self.lo, self.hi))
        u.polemass_length = u.masspole * u.length
        return obs, info


def make_env(task, scale=0.1):
    def thunk():
        e = gym.make(task)
        if task.startswith("CartPole"):
            e = PoleJitter(e)
        e = TransformReward(e, lambda r: r * scale)
        return e

    return thunk


def build(args, env):
    info = SpaceInfo.from_env(env)
    shared = Net(state_shape=info.observation_info.obs_shape, hidden_sizes=args.hidden, activation=nn.Tanh)
    actor = DiscreteActor(preprocess_net=shared, action_shape=info.action_info.action_shape)
    critic = DiscreteCritic(preprocess_net=shared)
    for m in ActorCritic(actor, critic).modules():
        if isinstance(m, nn.Linear):
            nn.init.orthogonal_(m.weight)
            nn.init.zeros_(m.bias)
    policy = DiscreteActorPolicy(
        actor=actor,
        dist_fn=torch.distributions.Categorical,
        action_space=env.action_space,
        deterministic_eval=True,
    )
    algo = PPO(
        policy=policy,
        critic=critic,
        optim=AdamOptimizerFactory(lr=args.lr),
        gamma=args.gamma,
        gae_lambda=args.gae_lambda,
        eps_clip=args.clip,
        vf_coef=args.vf,
        ent_coef=args.ent,
        max_grad_norm=args.max_grad_norm,
        advantage_normalization=True,
        max_batchsize=4096,
    )
    return algo


def main():
    args = parse()
    torch.set_num_threads(1)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    os.makedirs(args.out, exist_ok=True)
    pprint.pprint(vars(args))

    proto = gym.make(args.task)
    train_envs = SubprocVectorEnv([make_env(args.task) for _ in range(args.train_num)])
    test_envs = DummyVectorEnv([make_env(args.task, scale=1.0) for _ in range(args.test_num)])
    train_envs.seed(args.seed)
    test_envs.seed(args.seed + 1000)

    algo = build(args, proto)
    buf = VectorReplayBuffer(args.steps_per_collect + args.train_num, len(train_envs))
    train_c = Collector[CollectStats](algo, train_envs, buf)
    test_c = Collector[CollectStats](algo, test_envs)

    best = {"r": -1.0}
    t0 = time.time()
    last = {"t": t0, "s": 0}

    def save_best(a):
        torch.save(a.state_dict(), os.path.join(args.out, "best.pth"))

    def on_step(epoch, env_step):
        now = time.time()
        if now - last["t"] > 2.0:
            sps = (env_step - last["s"]) / (now - last["t"])
            print(f"[{now - t0:7.1f}s] epoch {epoch} step {env_step} sps {sps:.0f}", flush=True)
            last["t"], last["s"] = now, env_step

    def ckpt(epoch, env_step, grad_step):
        path = os.path.join(args.out, "last.pth")
        if epoch % 25 == 0:
            torch.save({"model": algo.state_dict(), "step": env_step}, path)
        return path

    res = algo.run_training(
        OnPolicyTrainerParams(
            training_collector=train_c,
            test_collector=test_c,
            max_epochs=args.epochs,
            epoch_num_steps=args.steps_per_epoch,
            collection_step_num_env_steps=args.steps_per_collect,
            update_step_num_repetitions=args.repeat,
            batch_size=args.batch_size,
            test_step_num_episodes=args.test_num,
            training_fn=on_step,
            save_best_fn=save_best,
            save_checkpoint_fn=ckpt,
            show_progress=False,
            verbose=False,
        )
    )
    print(res, best)


if __name__ == "__main__":
    main()
