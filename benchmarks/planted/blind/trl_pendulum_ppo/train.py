"""PPO on pendulum with torchrl. Started from the tutorial and grew from there."""
import argparse
import os
import time
from collections import defaultdict

import torch
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
from torch import nn

from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, SamplerWithoutReplacement, TensorDictReplayBuffer
from torchrl.envs import (
    Compose,
    ObservationNorm,
    RewardScaling,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
)
from torchrl.envs.libs.gym import GymEnv
from torchrl.envs.utils import ExplorationType, set_exploration_type
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

ap = argparse.ArgumentParser()
ap.add_argument("--env", default="Pendulum-v1")
ap.add_argument("--workers", type=int, default=12)
ap.add_argument("--frames-per-batch", type=int, default=1200)
ap.add_argument("--total", type=int, default=30_000_000)
ap.add_argument("--mb", type=int, default=300)
ap.add_argument("--epochs", type=int, default=4)
ap.add_argument("--lr", type=float, default=3e-4)
ap.add_argument("--gamma", type=float, default=0.95)
ap.add_argument("--lmbda", type=float, default=0.9)
ap.add_argument("--ent", type=float, default=1e-3)
ap.add_argument("--eval-every", type=int, default=400)
ap.add_argument("--seed", type=int, default=0)
args = ap.parse_args()

torch.set_num_threads(1)
torch.manual_seed(args.seed)
SAVE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ckpt")

# collected once with random actions (400 x 200 steps), see notebook
OBS_LOC = torch.tensor([0.012, -0.004, 0.03])
OBS_SCALE = torch.tensor([0.71, 0.70, 2.9])


def transforms():
    return Compose(
        ObservationNorm(loc=OBS_LOC, scale=OBS_SCALE, in_keys=["observation"], standard_normal=True),
        RewardScaling(loc=0.0, scale=0.1),
        RewardSum(),
        StepCounter(max_steps=200),
    )


def make_single():
    return GymEnv(args.env, device="cpu")


def make_env(n):
    def one():
        return TransformedEnv(make_single(), transforms())

    return SerialEnv(n, one)


def make_models(spec_env):
    n_obs = spec_env.observation_spec["observation"].shape[-1]
    aspec = spec_env.action_spec_unbatched
    n_act = aspec.shape[-1]
    pi = nn.Sequential(
        MLP(in_features=n_obs, out_features=n_act, num_cells=[64, 64], activation_class=nn.Tanh),
        AddStateIndependentNormalScale(n_act, scale_lb=1e-4),
    )
    actor = ProbabilisticActor(
        TensorDictModule(pi, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        spec=spec_env.full_action_spec_unbatched,
        distribution_class=TanhNormal,
        distribution_kwargs={"low": aspec.space.low, "high": aspec.space.high, "tanh_loc": False},
        return_log_prob=True,
        default_interaction_type=ExplorationType.RANDOM,
    )
    critic = ValueOperator(
        MLP(in_features=n_obs, out_features=1, num_cells=[64, 64], activation_class=nn.Tanh),
        in_keys=["observation"],
    )
    return actor, critic


def evaluate(env, actor):
    with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
        td = env.rollout(200, actor, break_when_any_done=False)
    return td["next", "reward"].sum(-2).mean().item() / 0.1


def main():
    os.makedirs(SAVE, exist_ok=True)
    env = make_env(args.workers)
    env.set_seed(args.seed)
    test_env = make_env(2)
    actor, critic = make_models(env)
    collector = Collector(
        env,
        actor,
        frames_per_batch=args.frames_per_batch,
        total_frames=args.total,
        device="cpu",
        max_frames_per_traj=-1,
    )
    rb = TensorDictReplayBuffer(
        storage=LazyTensorStorage(args.frames_per_batch),
        sampler=SamplerWithoutReplacement(),
        batch_size=args.mb,
    )
    gae = GAE(gamma=args.gamma, lmbda=args.lmbda, value_network=critic, average_gae=False)
    loss_mod = ClipPPOLoss(
        actor_network=actor,
        critic_network=critic,
        clip_epsilon=0.2,
        entropy_coeff=args.ent,
        critic_coeff=0.5,
        loss_critic_type="smooth_l1",
        normalize_advantage=True,
    )
    optim = torch.optim.Adam(loss_mod.parameters(), lr=args.lr, eps=1e-5)
    hist = defaultdict(list)
    frames, t0, tp, fp = 0, time.time(), time.time(), 0
    for it, data in enumerate(collector):
        frames += data.numel()
        with torch.no_grad():
            data = gae(data)
        rb.empty()
        rb.extend(data.reshape(-1))
        for _ in range(args.epochs):
            for batch in rb:
                out = loss_mod(batch)
                loss = out["loss_objective"] + out["loss_critic"] + out["loss_entropy"]
                optim.zero_grad(set_to_none=True)
                loss.backward()
                nn.utils.clip_grad_norm_(loss_mod.parameters(), 0.5)
                optim.step()
        done = data["next", "done"]
        if done.any():
            hist["ret"].append(data["next", "episode_reward"][done].mean().item() / 0.1)
        # hist["kl"].append(out["kl_approx"].item())
        if it % args.eval_every == args.eval_every - 1:
            print("   eval", round(evaluate(test_env, actor), 1))
            torch.save(actor.state_dict(), os.path.join(SAVE, "actor.pt"))
        if time.time() - tp > 2:
            r = hist["ret"][-1] if hist["ret"] else float("nan")
            print(
                f"it {it} frames {frames} sps {(frames - fp) / (time.time() - tp):.0f} "
                f"ret {r:.1f} loss {loss.item():.3f} t {time.time() - t0:.0f}",
                flush=True,
            )
            tp, fp = time.time(), frames
    collector.shutdown()


if __name__ == "__main__":
    main()
