"""DQN, top to bottom: one iteration collects `iteration_steps` vector steps and learns between them.

    state = start(config, env)
    while state.env_steps < config.total_steps:
        with clock.iteration():
            metrics = iterate(state, config, env, clock)

Double DQN, dueling networks, n-step returns and prioritised replay are switches. Steps, updates and episodes are counted
apart; the target network is copied by updates, not by environment steps. Truncated episodes bootstrap from their true last
observation; terminated ones do not bootstrap. How rows act and how a gradient is computed are two interfaces (see `td`).
Where the environments are on the GPU, a whole iteration runs there (`dqn_on_device`).
"""

import copy
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
from hotlap.train import dqn_on_device, finite, parallel, td
from hotlap.train.actions import actions_of
from hotlap.train.checkpoint import Varying, part_of, tensors_of
from hotlap.train.configs import DQNConfig, check
from hotlap.train.dqn_on_device import Plan
from hotlap.train.evaluation import Played, play
from hotlap.train.flat import Adam, flatten
from hotlap.train.graphs import Function, Graphs
from hotlap.train.greedy import GreedyPolicy, choose_with
from hotlap.train.memory import Memory
from hotlap.train.metrics import Metrics
from hotlap.train.nets import QNETS, QMaker, QNet, named
from hotlap.train.replay import Replay, VectorStep, replay_kind

Config = DQNConfig


@dataclass
class State:
    """All that a run depends on, besides its config and its environments."""

    net: QNet
    flat: nn.Parameter  # all parameters of the network as one vector, with the gradient
    target: Tensor  # the target network's, in the same layout
    actor: td.QActor
    gradient: td.QGradient
    optimizer: Adam
    replay: Replay
    generator: torch.Generator
    obs: NDArray[Any]  # [num_envs, ...] where the environments are now
    mask: NDArray[np.bool_] | None  # [num_envs, actions] which actions are legal there, if some are not
    learn: Function  # `dqn.learn`, perhaps as a CUDA graph
    steps: Function | None = None  # `dqn_on_device.steps`, where the environments are on the GPU
    graphs: Graphs | None = None  # what is captured, and what is not
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
    parallel.use(config.device)
    torch.set_num_threads(config.torch_threads)
    torch.manual_seed(config.seed)
    device, spec = torch.device(config.device), env.env_spec
    net = make_net(config, spec, nets).to(device)
    target = copy.deepcopy(net).requires_grad_(False)
    flat, target_flat = flatten(net), flatten(target)
    obs, info = env.reset(seed=parallel.row_seeds([config.seed], config.num_envs))
    mask = info.get("action_mask")
    actor, gradient, optimizer = td.choose(net, target, flat, target_flat, spec, config)
    generator = torch.Generator(device).manual_seed(config.seed)
    state = State(
        net=net,
        flat=flat,
        target=target_flat.data,
        actor=actor,
        gradient=gradient,
        optimizer=optimizer,
        replay=replay_kind(device)(
            config.buffer_size,
            config.num_envs,
            spec.obs_shape,
            torch.as_tensor(obs[:0]).dtype,
            config.gamma,
            config.n_step,
            config.priority_alpha,
            choices=0 if mask is None else spec.choices,
            device=device,
        ),
        generator=generator,
        obs=obs,
        mask=mask,
        learn=lambda clock, *told: learn(state, config, clock, *told),
    )
    dqn_on_device.prepare(state, config, env)
    return state


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
    env_steps, updates = state.env_steps, state.updates
    with finite.checked_steps(env, config.device):
        if env.on_device:
            dqn_on_device.iterate(state, plan(state, config), env, clock, metrics)
        else:
            for _ in range(config.iteration_steps):
                with clock.stage(stages.COLLECT):
                    collect(state, config, env, clock, metrics)
                for _ in range(due(state, config)):
                    update(state, config, clock)
    state.iterations += 1
    with clock.stage(stages.LOG):
        learned = {}
        if state.updates > updates:
            optimizer = state.optimizer
            learned = {"loss": state.gradient.mean_loss(), "gradient_norm": optimizer.norm, "learning_rate": optimizer.rate}
        numbers = torch.stack(list(learned.values())).tolist() if learned else []  # waits for the device
        state.episodes += metrics.ended if env.on_device else 0
        metrics.scalars = {"train/epsilon": epsilon(state, config)}
        metrics.scalars |= {f"train/{name}": number for name, number in zip(learned, numbers, strict=True)}
        finite.check_losses(metrics.scalars, state)
    clock.count(ENV_STEPS, state.env_steps - env_steps)
    clock.count(UPDATES, state.updates - updates)
    clock.count(EPISODES, metrics.ended)
    return metrics


def plan(state: State, config: Config) -> Plan:
    """What an iteration on a device is going to do; its counters are then those of its end."""
    planned = Plan()
    for _ in range(config.iteration_steps):
        planned.epsilon.append(epsilon(state, config))
        state.env_steps += config.num_envs
        planned.beta.append(beta(state, config))
        planned.updates.append(due(state, config))
        for _ in range(planned.updates[-1]):
            state.updates += 1
            planned.sync.append(syncs(state, config))
    return planned


def due(state: State, config: Config) -> int:
    """How many updates to make after a vector step."""
    state.owed += config.updates_per_step if learning(state, config) else 0
    count = int(state.owed)
    state.owed -= count
    return count


def learning(state: State, config: Config) -> bool:
    """Whether there is experience enough to learn from."""
    return state.env_steps >= config.learning_starts


# -- collecting --


def collect(state: State, config: Config, env: Any, clock: StageClock, metrics: Metrics) -> None:
    """One step of every environment into the replay memory."""
    obs, mask = to_device(state, clock, state.obs, state.mask)
    with clock.stage(stages.ACT):
        action = act(state, obs, mask, epsilon(state, config))
    with clock.stage(stages.TRANSFER) if action.is_cuda else nullcontext():
        host_action = action.cpu().numpy()  # waits for the device, so it also holds what is left of the stage before
    with clock.stage(stages.WAIT if env.engine.workers else stages.ENV_STEP):
        next_obs, reward, terminated, truncated, info = env.step(host_action)
    with clock.stage(stages.STORE):
        after, next_mask = next_obs, None if state.mask is None else info["action_mask"]
        legal_after = next_mask
        if "_final_obs" in info:
            ended = info["_final_obs"]
            after = next_obs.copy()
            after[ended] = finite.checked_last(env, info["final_obs"][ended], np.flatnonzero(ended))
            if next_mask is not None:  # of the new episode; what was legal at the end of the old one is not known
                legal_after = next_mask | ended[:, None]
            for name, values in info["final_info"].items():
                metrics.episodes.setdefault(name, []).extend(values[ended].tolist())
            state.episodes += int(ended.sum())
        led_to = to_device(state, clock, reward, after, terminated, truncated, legal_after)
        state.replay.add(VectorStep(obs, action, *led_to))
    state.obs, state.mask = next_obs, next_mask
    state.env_steps += config.num_envs


def to_device(state: State, clock: StageClock, *arrays: NDArray[Any] | None) -> list[Any]:
    """Arrays as tensors where training happens; on the CPU without a copy."""
    tensors = [None if array is None else torch.from_numpy(array) for array in arrays]
    if state.replay.device.type == "cpu":
        return tensors
    with clock.stage(stages.TRANSFER):
        return [None if tensor is None else tensor.to(state.replay.device) for tensor in tensors]


def act(state: State, obs: Tensor, mask: Tensor | None, explore: float) -> Tensor:
    """Epsilon-greedy actions [num_envs]."""
    draw = torch.rand(len(obs), generator=state.generator, device=obs.device)
    return state.actor.act(obs, mask, draw, explore)


def epsilon(state: State, config: Config) -> float:
    """The share of random actions now."""
    if config.epsilon_steps:
        done = min(1.0, state.env_steps / config.epsilon_steps)
        return config.epsilon_start + done * (config.epsilon_end - config.epsilon_start)
    return max(config.epsilon_end, config.epsilon_start * config.epsilon_decay**state.episodes)


# -- learning --


def update(state: State, config: Config, clock: StageClock) -> None:
    """The next update, as the counters say."""
    state.updates += 1
    now: list[Any] = [beta(state, config), syncs(state, config)]
    if state.flat.is_cuda:  # where CUDA graphs take tensors
        now = [torch.full((), number, device=state.flat.device) for number in now]
    state.learn(clock, *now)


def beta(state: State, config: Config) -> float:
    """How strongly importance weights correct for priorities now."""
    progress = min(1.0, state.env_steps / config.total_steps)
    return config.priority_beta + progress * (1 - config.priority_beta)


def syncs(state: State, config: Config) -> bool:
    """Whether this update ends with a copy into the target network."""
    return state.updates % config.target_sync == 0


def learn(state: State, config: Config, clock: StageClock, beta: float | Tensor, sync: bool | Tensor) -> None:
    """One minibatch. Of tensors it asks the device for nothing."""
    with clock.stage(stages.SAMPLE):
        batch = state.replay.sample(config.batch_size, state.generator, beta)
    with clock.stage(stages.UPDATE):
        with clock.stage(stages.LOSS):
            error = state.gradient.loss(batch)
        with clock.stage(stages.BACKWARD):
            state.gradient.backward()
        with clock.stage(stages.OPTIMIZER):
            assert state.flat.grad is not None
            state.optimizer.step(state.flat.grad)
        if isinstance(sync, Tensor):
            with clock.stage(stages.TARGET):
                torch.where(sync, state.flat.data, state.target, out=state.target)
        elif sync:
            with clock.stage(stages.TARGET):
                state.target.copy_(state.flat.data)
    if batch.weight is not None:
        with clock.stage(stages.SAMPLE):
            state.replay.set_priorities(batch.rows, error)


# -- playing --


def greedy_policy(net: nn.Module) -> GreedyPolicy:
    """Observations [rows, ...] and which actions are legal to the best actions [rows]; there is no memory."""

    @torch.inference_mode()
    def best(obs: Tensor, mask: Tensor | None = None, memory: Memory = ()) -> tuple[Tensor, Memory]:
        return td.legal(net(obs), mask).argmax(dim=1), memory

    return best


def load_policy(config: Config, spec: EnvSpec, nets: Mapping[str, QMaker], arrays: dict[str, NDArray[Any]]) -> GreedyPolicy:
    """The policy of a checkpoint's arrays, without environments around it, on the config's device."""
    device = torch.device(config.device)
    net = make_net(config, spec, nets).to(device)
    net.load_state_dict(tensors_of(arrays, device, "net."))
    return greedy_policy(net)


def evaluate(state: State, env: Any, seed: int, sampled: bool = False, options: Mapping[str, Any] | None = None) -> Played:
    """Play one greedy episode in each environment of `env`; per episode: return, length and the game's own metrics."""
    if sampled:
        raise ValueError("Q-values give no distribution of actions: evaluate greedily")
    choose = choose_with(greedy_policy(state.net), actions_of(env.env_spec), state.replay.device)
    return play(env, seed, choose, options)


def networks(state: State) -> dict[str, nn.Module]:
    """What `profile --modules` times; a network that is computed in C calls none of its modules."""
    return state.gradient.modules


# -- checkpoint --

_COUNTERS = ("env_steps", "updates", "episodes", "iterations", "owed")
VARYING = Varying(rows=("generator", "replay."))  # by device; as it fills


def save_state(state: State, env: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Everything that the rest of the run depends on: arrays and plain numbers."""
    tensors = {f"net.{k}": v for k, v in state.net.state_dict().items()}
    tensors |= {f"replay.{k}": v for k, v in state.replay.state().items()}
    tensors |= {f"optimizer.{k}": v for k, v in state.optimizer.state().items()}
    tensors |= {"target": state.target, "generator": state.generator.get_state()}
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    arrays |= {f"env.{k}": v for k, v in env.state().items()}
    return arrays, {name: getattr(state, name) for name in _COUNTERS}


def load_state(state: State, env: Any, arrays: dict[str, NDArray[Any]], numbers: dict[str, Any]) -> None:
    """Put a fresh `start` exactly where `save_state` was taken."""
    device = state.replay.device
    for name in _COUNTERS:
        setattr(state, name, numbers[name])
    state.net.load_state_dict(tensors_of(arrays, device, "net."))
    state.target.copy_(tensors_of(arrays, device, "target")[""])
    state.replay.load_state(tensors_of(arrays, device, "replay."))
    state.optimizer.load(tensors_of(arrays, device, "optimizer."))
    parallel.restore(state.generator, arrays["generator"], state.env_steps, 1)
    state.obs = env.load_state(part_of(arrays, "env."), parallel.row_seeds([state.env_steps], env.num_envs))
    if not env.restores:  # it began new episodes
        state.replay.open.zero_()
    if state.mask is not None:
        state.mask = env.outcome(0)[0].mask
