import os
import sys
import time

import torch
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from common import Arm, ckpt_dir, setup  # noqa

from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import RewardSum, TransformedEnv
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import SACLoss, SoftUpdate

CFG = {
    "seed": 11,
    "n_envs": 16,
    "init_random": 1600,
    "frames_per_batch": 64,
    "updates_per_batch": 8,
    "batch": 256,
    "capacity": 300_000,
    "lr": 3e-4,
    "gamma": 0.98,
    "tau": 0.005,
    "hidden": 128,
    "total": 20_000_000,
    "log_every": 2.0,
    "save_every": 2000,
}


def nets(env, h):
    no = env.observation_spec["observation"].shape[-1]
    na = env.action_spec_unbatched.shape[-1]
    actor = ProbabilisticActor(
        TensorDictModule(
            nn.Sequential(MLP(in_features=no, out_features=2 * na, num_cells=[h, h], activation_class=nn.ReLU), NormalParamExtractor(scale_lb=0.05)),
            in_keys=["observation"],
            out_keys=["loc", "scale"],
        ),
        in_keys=["loc", "scale"],
        spec=env.action_spec_unbatched,
        distribution_class=TanhNormal,
        distribution_kwargs={"low": env.action_spec_unbatched.space.low, "high": env.action_spec_unbatched.space.high, "tanh_loc": False},
        return_log_prob=False,
    )
    q = ValueOperator(MLP(in_features=no + na, out_features=1, num_cells=[h, h], activation_class=nn.ReLU), in_keys=["observation", "action"])
    return actor, q


def main():
    setup(CFG["seed"])
    env = TransformedEnv(Arm(CFG["n_envs"], seed=CFG["seed"]), RewardSum())
    actor, q = nets(env, CFG["hidden"])
    loss = SACLoss(actor, q, num_qvalue_nets=2, loss_function="l2", delay_qvalue=True, alpha_init=0.2, action_spec=env.action_spec_unbatched)
    loss.make_value_estimator(gamma=CFG["gamma"])
    target = SoftUpdate(loss, eps=1 - CFG["tau"])

    opt_a = torch.optim.Adam(loss.actor_network_params.flatten_keys().values(), lr=CFG["lr"])
    opt_q = torch.optim.Adam(loss.qvalue_network_params.flatten_keys().values(), lr=CFG["lr"])
    opt_al = torch.optim.Adam([loss.log_alpha], lr=CFG["lr"])

    rb = TensorDictReplayBuffer(storage=LazyTensorStorage(CFG["capacity"]), batch_size=CFG["batch"])
    col = Collector(
        env,
        actor,
        frames_per_batch=CFG["frames_per_batch"],
        total_frames=CFG["total"],
        init_random_frames=CFG["init_random"],
        device="cpu",
    )
    out = ckpt_dir()
    frames, n_upd, tp, fp, t0 = 0, 0, time.time(), 0, time.time()
    rets, lq, la = [], None, None
    for it, data in enumerate(col):
        frames += data.numel()
        done = data["next", "done"]
        if done.any():
            rets.append(data["next", "episode_reward"][done].mean().item())
            rets = rets[-50:]
        rb.extend(data.reshape(-1))
        if frames < CFG["init_random"]:
            continue
        for _ in range(CFG["updates_per_batch"]):
            b = rb.sample()
            ld = loss(b)
            opt_q.zero_grad()
            opt_a.zero_grad()
            opt_al.zero_grad()
            # one backward, the graphs are separate anyway
            (ld["loss_qvalue"] + ld["loss_actor"] + ld["loss_alpha"]).backward()
            opt_q.step()
            opt_a.step()
            opt_al.step()
            target.step()
            n_upd += 1
            lq, la = ld["loss_qvalue"].detach(), ld["loss_actor"].detach()
        if n_upd % CFG["save_every"] == 0:
            torch.save({"actor": actor.state_dict(), "frames": frames}, os.path.join(out, "last.pt"))
        if time.time() - tp > CFG["log_every"]:
            dt = time.time() - tp
            r = sum(rets) / max(1, len(rets))
            print(f"{frames:9d} frames | {n_upd} upd | sps {(frames - fp) / dt:.0f} | ret {r:.2f} | q {lq.item():.3f} pi {la.item():.3f} | alpha {loss.log_alpha.exp().item():.3f}", flush=True)
            tp, fp = time.time(), frames
    col.shutdown()
    print("total", time.time() - t0)


if __name__ == "__main__":
    main()
