import argparse
import time

import torch
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer, SamplerWithoutReplacement
from torchrl.envs import GymWrapper, RewardSum, TransformedEnv
from torchrl.modules import MLP, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from depot import Depot


def make_env():
    return TransformedEnv(GymWrapper(Depot(), categorical_action_encoding=True), RewardSum())


def make_models(env):
    n_obs = env.observation_spec["observation"].shape[-1]
    actor_net = TensorDictModule(MLP(in_features=n_obs, out_features=4, num_cells=[64, 64], activation_class=torch.nn.Tanh), in_keys=["observation"], out_keys=["logits"])
    actor = ProbabilisticActor(
        actor_net, in_keys=["logits"], spec=env.action_spec, distribution_class=torch.distributions.Categorical,
        distribution_kwargs={"validate_args": False}, return_log_prob=True,
    )
    critic = ValueOperator(MLP(in_features=n_obs, out_features=1, num_cells=[64, 64], activation_class=torch.nn.Tanh), in_keys=["observation"])
    return actor, critic


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--frames", type=int, default=5_120_000)
    p.add_argument("--per-batch", type=int, default=256)
    p.add_argument("--minibatch", type=int, default=64)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--lr", type=float, default=5e-4)
    p.add_argument("--seed", type=int, default=2)
    args = p.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)

    env = make_env()
    env.set_seed(args.seed)
    actor, critic = make_models(env)
    collector = Collector(env, actor, frames_per_batch=args.per_batch, total_frames=args.frames, auto_register_policy_transforms=False)
    rb = ReplayBuffer(storage=LazyTensorStorage(args.per_batch), sampler=SamplerWithoutReplacement(), batch_size=args.minibatch)
    gae = GAE(gamma=0.97, lmbda=0.95, value_network=critic, average_gae=True)
    loss_fn = ClipPPOLoss(actor, critic, clip_epsilon=0.2, entropy_coeff=0.01, critic_coeff=0.5)
    opt = torch.optim.Adam(loss_fn.parameters(), lr=args.lr, fused=True)

    seen, start = 0, time.time()
    for it, data in enumerate(collector):
        seen += data.numel()
        with torch.no_grad():
            gae(data)
        rb.extend(data.reshape(-1))
        for _ in range(args.epochs):
            for mb in rb:
                out = loss_fn(mb)
                loss = out["loss_objective"] + out["loss_critic"] + out["loss_entropy"]
                opt.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(loss_fn.parameters(), 0.5)
                opt.step()
        ends = data["next", "done"].squeeze(-1)
        if it % 8 == 0 and ends.any():
            ret = data["next", "episode_reward"][ends].mean().item()
            print(f"iter {it} frames {seen} return {ret:.2f} fps {seen / (time.time() - start):.0f}", flush=True)


if __name__ == "__main__":
    main()
