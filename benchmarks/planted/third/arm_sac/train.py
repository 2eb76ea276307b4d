"""SAC on the flexible-joint arm (skrl). One gradient step per environment step."""
import argparse

from skrl.agents.torch.sac import SAC, SAC_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.trainers.torch import SequentialTrainer, SequentialTrainerCfg
from skrl.utils import set_seed

from nets import make_models
from plant import FlexArmVecEnv


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--num-envs", type=int, default=4)
    parser.add_argument("--timesteps", type=int, default=250_000)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--memory", type=int, default=200_000)
    parser.add_argument("--lr", type=float, default=3e-4)
    args = parser.parse_args()

    set_seed(args.seed)
    env = wrap_env(FlexArmVecEnv(args.num_envs, seed=args.seed), wrapper="gymnasium", verbose=False)

    cfg = SAC_CFG(
        gradient_steps=args.num_envs,            # as many updates as transitions
        batch_size=args.batch_size,
        discount_factor=0.98,
        polyak=0.005,
        learning_rate=args.lr,
        random_timesteps=100,
        learning_starts=100,
        learn_entropy=True,
        initial_entropy_value=0.2,
    )
    cfg.experiment.directory = "runs"
    cfg.experiment.experiment_name = f"arm_s{args.seed}"
    cfg.experiment.write_interval = 500
    cfg.experiment.checkpoint_interval = 10_000

    memory = RandomMemory(memory_size=args.memory // args.num_envs, num_envs=args.num_envs,
                          device=env.device, replacement=True)
    agent = SAC(models=make_models(env), memory=memory, cfg=cfg, observation_space=env.observation_space,
                action_space=env.action_space, device=env.device)
    SequentialTrainer(cfg=SequentialTrainerCfg(timesteps=args.timesteps, headless=True),
                      env=env, agents=agent).train()


if __name__ == "__main__":
    main()
