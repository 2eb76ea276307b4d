"""DQN, top to bottom: one iteration collects `iteration_steps` vector steps and learns between them.

    state = start(config, env)
    while state.env_steps < config.total_steps:
        with clock.iteration():
            metrics = iterate(state, config, env, clock)

Double DQN, dueling networks, n-step returns and prioritised replay are switches. Steps, updates and episodes are counted
apart; the target network is copied by updates, not by environment steps. Truncated episodes bootstrap from their true last
observation; terminated ones do not bootstrap.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hotlap.core import stages
from hotlap.core.clock import StageClock
from hotlap.core.counts import ENV_STEPS, EPISODES, UPDATES
from hotlap.envs.spec import EnvSpec
from hotlap.train.checkpoint import part_of, tensors_of
from hotlap.train.configs import DQNConfig, check
from hotlap.train.evaluation import Played, play
from hotlap.train.metrics import Metrics
from hotlap.train.nets import QNETS, QMaker, QNet, named
from hotlap.train.replay import Batch, Replay

Config = DQNConfig


@dataclass
class State:
    """All that a run depends on, besides its config and its environments."""

    net: nn.Module
    target: nn.Module
    optimizer: torch.optim.Optimizer
    replay: Replay
    generator: torch.Generator
    obs: NDArray[Any]  # [num_envs, ...] where the environments are now
    env_steps: int = 0
    updates: int = 0
    episodes: int = 0
    iterations: int = 0
    owed: float = 0.0  # updates due but not yet made


def validate(config: Config) -> None:
    """Refuse a config that cannot work."""
    check(
        config,
        ones=("iteration_steps", "batch_size", "buffer_size", "n_step", "target_sync"),
        zeros=("updates_per_step", "learning_starts", "epsilon_steps"),
        fractions=("epsilon_start", "epsilon_end", "epsilon_decay", "priority_alpha", "priority_beta"),
    )


def start(config: Config, env: Any, nets: Mapping[str, QMaker] = QNETS) -> State:
    """Networks, optimizer, empty replay, environments reset."""
    validate(config)
    torch.set_num_threads(config.torch_threads)
    torch.manual_seed(config.seed)
    device = torch.device(config.device)
    space = env.single_observation_space
    net, target = (make_net(config, env.env_spec, nets).to(device) for _ in range(2))
    target.load_state_dict(net.state_dict())
    # Seeds of their own for the environments: with seed + i, runs with neighbouring seeds would share most of them.
    obs, _ = env.reset(seed=np.random.SeedSequence(config.seed).generate_state(config.num_envs).tolist())
    return State(
        net=net,
        target=target,
        optimizer=torch.optim.Adam(net.parameters(), lr=config.learning_rate, fused=True),
        replay=Replay(
            config.buffer_size,
            config.num_envs,
            space.shape,
            torch.from_numpy(obs).dtype,
            config.gamma,
            config.n_step,
            config.priority_alpha,
            device,
        ),
        generator=torch.Generator(device).manual_seed(config.seed),
        obs=obs,
    )


def make_net(config: Config, spec: EnvSpec, nets: Mapping[str, QMaker] = QNETS) -> QNet:
    """The network that the config names, for environments of this declaration."""
    if len(spec.action_sizes) != 1 or spec.action_shape:
        raise ValueError(f"DQN cannot act in {spec.action_space}: it takes Discrete")
    if spec.seats > 1 or spec.agents > 1:
        raise ValueError("DQN trains one agent, not several: use --algo ppo")
    return named(nets, config.net)(config, spec, spec.choices)


def iterate(state: State, config: Config, env: Any, clock: StageClock) -> Metrics:
    """Collect and learn for one iteration."""
    metrics = Metrics()
    losses = []
    for _ in range(config.iteration_steps):
        with clock.stage(stages.COLLECT):
            collect(state, config, env, clock, metrics)
        clock.count(ENV_STEPS, config.num_envs)
        if not learning(state, config):
            continue
        state.owed += config.updates_per_step
        while state.owed >= 1:
            state.owed -= 1
            losses.append(update(state, config, clock))
            clock.count(UPDATES)
    state.iterations += 1
    with clock.stage(stages.LOG):
        metrics.scalars["train/epsilon"] = epsilon(state, config)
        if losses:
            metrics.scalars["train/loss"] = (
                torch.stack(losses).mean().item()
            )  # the only wait for the device in an iteration's learning
    clock.count(EPISODES, len(metrics.episodes.get("return", ())))
    return metrics


def learning(state: State, config: Config) -> bool:
    """Whether there is experience enough to learn from."""
    return state.env_steps >= config.learning_starts


def collect(state: State, config: Config, env: Any, clock: StageClock, metrics: Metrics) -> None:
    """One step of every environment into the replay memory."""
    (obs,) = to_device(state, clock, state.obs)
    with clock.stage(stages.ACT):
        action = act(state, obs, epsilon(state, config))
    with clock.stage(stages.TRANSFER) if action.is_cuda else nullcontext():
        host_action = action.cpu().numpy()  # waits for the device, so it also holds what is left of the stage before
    with clock.stage(stages.WAIT if env.engine.workers else stages.ENV_STEP):
        next_obs, reward, terminated, truncated, info = env.step(host_action)
    with clock.stage(stages.STORE):
        after = next_obs
        if "_final_obs" in info:
            after = next_obs.copy()
            ended = info["_final_obs"]
            after[ended] = info["final_obs"][ended]
            for name, values in info["final_info"].items():
                metrics.episodes.setdefault(name, []).extend(values[ended].tolist())
            state.episodes += int(ended.sum())
        state.replay.add(obs, action, *to_device(state, clock, reward, after, terminated, truncated))
    state.obs = next_obs
    state.env_steps += config.num_envs


def to_device(state: State, clock: StageClock, *arrays: NDArray[Any]) -> list[Tensor]:
    """Arrays as tensors where training happens; on the CPU without a copy."""
    tensors = [torch.from_numpy(array) for array in arrays]
    if state.replay.device.type == "cpu":
        return tensors
    with clock.stage(stages.TRANSFER):
        return [tensor.to(state.replay.device) for tensor in tensors]


@torch.inference_mode()
def act(state: State, obs: Tensor, explore: float) -> Tensor:
    """Epsilon-greedy actions [num_envs]."""
    q = state.net(obs)
    greedy, actions = q.argmax(dim=1), q.shape[1]
    # One draw decides both whether to explore and, scaled up, where to: it is uniform below `explore`.
    draw = torch.rand(len(greedy), generator=state.generator, device=obs.device)
    random = (draw * (actions / max(explore, 1e-9))).to(torch.int64)
    return torch.where(draw < explore, random.clamp_(max=actions - 1), greedy)


def epsilon(state: State, config: Config) -> float:
    """The share of random actions now."""
    if config.epsilon_steps:
        done = min(1.0, state.env_steps / config.epsilon_steps)
        return config.epsilon_start + done * (config.epsilon_end - config.epsilon_start)
    return max(config.epsilon_end, config.epsilon_start * config.epsilon_decay**state.episodes)


def update(state: State, config: Config, clock: StageClock) -> Tensor:
    """One minibatch; returns its loss, still on the device."""
    with clock.stage(stages.SAMPLE):
        progress = min(1.0, state.env_steps / config.total_steps)
        beta = config.priority_beta + progress * (1 - config.priority_beta)
        batch = state.replay.sample(config.batch_size, state.generator, beta)
    with clock.stage(stages.UPDATE):
        with clock.stage(stages.LOSS):
            error = td_error(state.net, state.target, batch, config.double)
            huber = nn.functional.huber_loss(error, torch.zeros_like(error), reduction="none")
            loss = (huber if batch.weight is None else huber * batch.weight).mean()
        with clock.stage(stages.BACKWARD):
            state.optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
        with clock.stage(stages.OPTIMIZER):
            nn.utils.clip_grad_norm_(state.net.parameters(), config.grad_clip)
            state.optimizer.step()
        state.updates += 1
        if state.updates % config.target_sync == 0:
            with clock.stage(stages.TARGET), torch.no_grad():
                torch._foreach_copy_(list(state.target.parameters()), list(state.net.parameters()))
    if batch.weight is not None:
        with clock.stage(stages.SAMPLE):
            state.replay.set_priorities(batch.rows, error)
    return loss.detach()


def td_error(net: nn.Module, target: nn.Module, batch: Batch, double: bool) -> Tensor:
    """Value of the action taken minus its target, [B]."""
    with torch.no_grad():
        next_value = target(batch.next_obs)
        if double:
            best = net(batch.next_obs).argmax(dim=1, keepdim=True)
            bootstrap = next_value.gather(1, best)[:, 0]
        else:
            bootstrap = next_value.amax(dim=1)
        td_target = batch.reward + batch.discount * bootstrap
    return net(batch.obs).gather(1, batch.action[:, None])[:, 0] - td_target  # type: ignore[no-any-return]


@torch.inference_mode()
def evaluate(state: State, env: Any, seed: int) -> Played:
    """Play one greedy episode in each environment of `env`; per episode: return, length and the game's own metrics."""

    def choose(obs: NDArray[Any], info: dict[str, Any], fresh: NDArray[np.bool_] | None) -> NDArray[Any]:
        best: NDArray[Any] = state.net(torch.from_numpy(obs).to(state.replay.device)).argmax(dim=1).cpu().numpy()
        return best

    return play(env, seed, choose)


def networks(state: State) -> dict[str, nn.Module]:
    """What `profile --modules` times."""
    return {"net": state.net, "target": state.target}


# -- checkpoint --

_COUNTERS = ("env_steps", "updates", "episodes", "iterations", "owed")


def save_state(state: State, env: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Everything that the rest of the run depends on: arrays and plain numbers."""
    tensors = {f"net.{k}": v for k, v in state.net.state_dict().items()}
    tensors |= {f"target.{k}": v for k, v in state.target.state_dict().items()}
    tensors |= {f"replay.{k}": v for k, v in state.replay.state().items()}
    for index, moments in state.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{k}": v for k, v in moments.items()}
    tensors["generator"] = state.generator.get_state()
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    arrays |= {f"env.{k}": v for k, v in env.state().items()}
    return arrays, {name: getattr(state, name) for name in _COUNTERS}


def load_state(state: State, env: Any, arrays: dict[str, NDArray[Any]], numbers: dict[str, Any]) -> None:
    """Put a fresh `start` exactly where `save_state` was taken."""
    device = state.replay.device
    state.net.load_state_dict(tensors_of(arrays, device, "net."))
    state.target.load_state_dict(tensors_of(arrays, device, "target."))
    state.replay.load_state(tensors_of(arrays, device, "replay."))
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors_of(arrays, device, "optimizer.").items():
        index, key = name.split(".", 1)
        moments.setdefault(int(index), {})[key] = tensor
    state.optimizer.load_state_dict({**state.optimizer.state_dict(), "state": moments})
    state.generator.set_state(torch.from_numpy(np.array(arrays["generator"])))
    for name in _COUNTERS:
        setattr(state, name, numbers[name])
    state.obs = env.load_state(part_of(arrays, "env."))
    if not env.restores:  # it began new episodes
        state.obs, _ = env.reset(seed=np.random.SeedSequence([state.env_steps]).generate_state(env.num_envs).tolist())
        state.replay.open.zero_()
