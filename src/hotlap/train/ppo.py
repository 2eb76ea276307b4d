"""PPO, top to bottom: one iteration collects `horizon` vector steps and learns from them for some epochs.

    state = start(config, env)
    while state.env_steps < config.total_steps:
        with clock.iteration():
            metrics = iterate(state, config, env, clock)

Discrete, multi-discrete and continuous actions, action masks, feed-forward networks and LSTM or GRU cells. Everything lives in
time-major tensors that are allocated once; the gradient of small networks is computed by hand (`fused.py`). A truncated
episode bootstraps from its true last observation, a terminated one does not; the memory of a recurrent network is cleared where
an episode begins. Nothing in an update waits for the device.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hotlap import stages
from hotlap.clock import ENV_STEPS, EPISODES, UPDATES, StageClock
from hotlap.train.actions import Actions, Discrete, Gaussian, actions_of
from hotlap.train.advantage import gae
from hotlap.train.fused import Adam, FusedPolicy, clip, flatten, gradients, prepare
from hotlap.train.nets import Policy
from hotlap.train.normalize import Moments


@dataclass(frozen=True)
class Config:
    num_envs: int = 8
    """Environments stepped together."""
    turbo: bool = False
    """Run the compiled kernel of the environment; off: Python."""
    env_threads: int = 1
    """Threads that step the environments' kernel."""
    total_steps: int = 200_000
    """Environment steps to train for."""
    horizon: int = 128
    """Vector steps per iteration."""
    epochs: int = 4
    """Passes over what was collected."""
    minibatch: int = 256
    """Transitions per update; of a recurrent network, whole sequences of `horizon` steps. What fills none is left out."""
    learning_rate: float = 1e-3
    """Adam's step size."""
    anneal: bool = True
    """Let the step size fall linearly to 0."""
    gamma: float = 0.99
    """Discount per step."""
    gae_lambda: float = 0.95
    """Between one-step errors (0) and Monte-Carlo returns (1)."""
    clip: float = 0.2
    """How far the probability of an action may move, as a ratio."""
    value_clip: float = 0.0
    """How far a value may move; 0: as far as it likes."""
    value_weight: float = 0.5
    """Weight of the value's error in the loss."""
    entropy: float = 0.0
    """Weight of the entropy in the loss at the start."""
    entropy_end: float | None = None
    """Weight of the entropy at the end; as at the start if not given."""
    normalize_advantage: bool = True
    """Bring each minibatch's advantages to mean 0 and deviation 1."""
    normalize_obs: bool = False
    """Bring observations to mean 0 and deviation 1, by running moments."""
    normalize_reward: bool = False
    """Divide rewards by the running deviation of the discounted return."""
    grad_clip: float = 0.5
    """Largest norm of the gradient."""
    target_kl: float = 0.0
    """Stop an iteration's updates once the policy has moved this far; 0: never. Asks the device once per epoch."""
    hidden: tuple[int, ...] = (64, 64)
    """Units of the hidden layers."""
    activation: str = "tanh"
    """tanh or relu."""
    shared: bool = False
    """One trunk for actor and critic."""
    memory: str = "none"
    """none, lstm or gru: cells of as many units as the last hidden layer."""
    device: str = "cpu"
    """Where to train: cpu, cuda or cuda:0."""
    torch_threads: int = 1
    """Threads that torch uses on the CPU; small networks are fastest with one."""
    seed: int = 0
    """Same seed, same machine: same numbers."""

    @property
    def iteration_steps(self) -> int:
        return self.horizon

    @property
    def batch_size(self) -> int:
        return self.minibatch


@dataclass
class Rollout:
    """What an iteration collected, time-major: [horizon, num_envs, ...]; observations and values have one row more."""

    obs: Tensor
    action: Tensor
    logp: Tensor
    value: Tensor
    reward: Tensor
    done: Tensor
    advantage: Tensor
    mask: Tensor | None
    memory: tuple[Tensor, ...]  # of a recurrent network, before the first step


@dataclass
class State:
    """All that a run depends on, besides its config and its environments."""

    net: Policy
    flat: nn.Parameter  # all parameters of the network, which has views of it
    fused: FusedPolicy | None  # the network by hand, where that can be
    actions: Actions
    optimizer: Adam
    generator: torch.Generator
    rollout: Rollout
    memory: tuple[Tensor, ...]  # of a recurrent network, now
    obs_moments: Moments | None
    return_moments: Moments | None
    returns: Tensor  # [num_envs] discounted so far, to scale rewards by
    obs: NDArray[Any]  # [num_envs, ...] where the environments are now
    mask: NDArray[np.bool_] | None = None  # which actions are legal there
    env_steps: int = 0
    updates: int = 0
    episodes: int = 0
    iterations: int = 0


@dataclass
class Metrics:
    """What one iteration saw."""

    scalars: dict[str, float] = field(default_factory=dict)
    episodes: dict[str, list[float]] = field(default_factory=dict)  # return, length and the game's own, per episode


def validate(config: Config) -> None:
    """Refuse a config that cannot work."""
    ones = ("num_envs", "env_threads", "total_steps", "horizon", "epochs", "minibatch", "torch_threads")
    zeros = ("learning_rate", "clip", "value_clip", "value_weight", "entropy", "grad_clip", "target_kl", "seed")
    for name, least in (dict.fromkeys(ones, 1) | dict.fromkeys(zeros, 0)).items():
        if not least <= getattr(config, name) < float("inf"):  # false for nan too
            raise ValueError(f"{name.replace('_', '-')} must be at least {least}, not {getattr(config, name)}")
    for name in ("gamma", "gae_lambda"):
        if not 0 <= getattr(config, name) <= 1:
            raise ValueError(f"{name.replace('_', '-')} must be from 0 to 1, not {getattr(config, name)}")
    for name, known in (("activation", ("tanh", "relu")), ("memory", ("none", "lstm", "gru"))):
        if getattr(config, name) not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, not {getattr(config, name)!r}")
    if not config.hidden or min(config.hidden) < 1:
        raise ValueError("hidden must be one or more layers of at least 1 unit")
    if config.memory != "none" and config.minibatch % config.horizon:
        raise ValueError(f"with a memory, minibatch must hold whole sequences: a multiple of horizon ({config.horizon})")


def make_net(config: Config, env: Any) -> Policy:
    actions = actions_of(env.single_action_space)
    deviations = actions.size if isinstance(actions, Gaussian) else 0
    shape = env.single_observation_space.shape
    return Policy(shape, actions.outputs, config.hidden, config.activation, config.shared, config.memory, deviations)


def start(config: Config, env: Any) -> State:
    """Network, optimizer, empty rollout, environments reset."""
    validate(config)
    torch.set_num_threads(config.torch_threads)
    torch.manual_seed(config.seed)
    device = torch.device(config.device)
    actions = actions_of(env.single_action_space)
    net = make_net(config, env).to(device)
    flat = flatten(net)
    obs, info = env.reset(seed=np.random.SeedSequence(config.seed).generate_state(config.num_envs).tolist())
    mask = info.get("action_mask")
    steps, envs, space = config.horizon, config.num_envs, env.single_observation_space
    dtype = torch.float32 if config.normalize_obs else torch.from_numpy(np.asarray(obs)).dtype
    dtype = torch.float32 if dtype.is_floating_point else dtype

    def zeros(*shape: int, kind: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(shape, dtype=kind, device=device)

    return State(
        net=net,
        flat=flat,
        fused=FusedPolicy(net) if FusedPolicy.fits(net) and isinstance(actions, Discrete) and not actions.shape else None,
        actions=actions,
        optimizer=Adam(flat, config.learning_rate, eps=1e-5),
        generator=torch.Generator(device).manual_seed(config.seed),
        rollout=Rollout(
            obs=zeros(steps + 1, envs, *space.shape, kind=dtype),
            action=zeros(steps, envs, *actions.shape, kind=actions.dtype),
            logp=zeros(steps, envs),
            value=zeros(steps + 1, envs),
            reward=zeros(steps, envs),
            done=zeros(steps, envs),
            advantage=zeros(steps, envs),
            mask=None if mask is None else zeros(steps, envs, actions.outputs, kind=torch.bool),
            memory=net.initial(envs),
        ),
        memory=net.initial(envs),
        obs_moments=Moments(space.shape, device) if config.normalize_obs else None,
        return_moments=Moments((), device) if config.normalize_reward else None,
        returns=zeros(envs),
        obs=obs,
        mask=mask,
    )


def iterate(state: State, config: Config, env: Any, clock: StageClock) -> Metrics:
    """Collect and learn for one iteration."""
    metrics = Metrics()
    done = min(1.0, state.env_steps / config.total_steps)  # of the training, for the schedules
    with clock.stage(stages.COLLECT):
        collect(state, config, env, clock, metrics)
    clock.count(ENV_STEPS, config.horizon * config.num_envs)
    with clock.stage(stages.ADVANTAGE):
        rollout = state.rollout
        gae(rollout.reward, rollout.value, rollout.done, config.gamma, config.gae_lambda, rollout.advantage)
    if config.anneal:
        state.optimizer.learning_rate = config.learning_rate * (1 - done)
    losses = learn(state, config, clock, done)
    state.iterations += 1
    with clock.stage(stages.LOG):
        means = torch.stack([torch.stack(found).mean() for found in losses.values()]).tolist()  # the only wait for the device
        metrics.scalars = {f"train/{name}": value for name, value in zip(losses, means, strict=True)}
        metrics.scalars["train/learning_rate"] = state.optimizer.learning_rate
    clock.count(EPISODES, len(metrics.episodes.get("return", ())))
    return metrics


def learning(state: State, config: Config) -> bool:
    """PPO learns from the first iteration on."""
    return True


# -- collecting --


@torch.inference_mode()
def collect(state: State, config: Config, env: Any, clock: StageClock, metrics: Metrics) -> None:
    """`horizon` steps of every environment into the rollout."""
    rollout = state.rollout
    for kept, now in zip(rollout.memory, state.memory, strict=True):
        kept.copy_(now)
    for t in range(config.horizon):
        with clock.stage(stages.ACT):
            obs, mask = _place(state, t)
            if state.fused is not None:  # how likely an action was, and how good the state, is asked for all steps at once
                action = state.actions.choose(state.fused.logits(_as_input(obs)), state.generator, mask)
            else:
                output, rollout.value[t], state.memory = state.net(_as_input(obs), state.memory)
                action, rollout.logp[t] = state.actions.sample(output, state.generator, mask)
            rollout.action[t] = action
        with clock.stage(stages.ENV_STEP):
            next_obs, reward, terminated, truncated, info = env.step(_for_env(action, env))
        with clock.stage(stages.STORE):
            state.obs, state.mask = next_obs, info.get("action_mask")
            _store(state, config, t, reward, terminated, truncated, info, metrics)
    with clock.stage(stages.ACT):
        obs, _ = _place(state, config.horizon)
        if state.fused is None:
            rollout.value[config.horizon] = state.net(_as_input(obs), state.memory)[1]
        else:
            _judge(state, state.fused)
    state.env_steps += config.horizon * config.num_envs


def _judge(state: State, fused: FusedPolicy) -> None:
    """How likely all actions of the rollout were, and how good its states."""
    rollout = state.rollout
    logits, value = fused.forward(_as_input(rollout.obs.flatten(0, 1)))
    rollout.value.copy_(value.view_as(rollout.value))
    mask = None if rollout.mask is None else rollout.mask.flatten(0, 1)
    acted = rollout.action.flatten(0, 1)
    logp, _ = state.actions.evaluate(logits[: len(acted)], acted, mask)
    rollout.logp.copy_(logp.view_as(rollout.logp))


def _place(state: State, t: int) -> tuple[Tensor, Tensor | None]:
    """Put where the environments are into row t of the rollout, normalised if asked for."""
    rollout = state.rollout
    obs = torch.from_numpy(state.obs)
    if state.obs_moments is not None:
        if t < len(rollout.reward):  # the last row is the first of the next rollout
            state.obs_moments.add(obs.to(rollout.obs.device))
        rollout.obs[t] = state.obs_moments.normalize(obs.to(rollout.obs.device))
    else:
        rollout.obs[t].copy_(obs)
    if rollout.mask is None or state.mask is None or t == len(rollout.mask):
        return rollout.obs[t], None
    rollout.mask[t].copy_(torch.from_numpy(state.mask))
    return rollout.obs[t], rollout.mask[t]


def _as_input(obs: Tensor) -> Tensor:
    return obs if obs.is_floating_point() or obs.ndim == 4 else obs.to(torch.float32)  # grids are converted by their encoder


def _for_env(action: Tensor, env: Any) -> NDArray[Any]:
    host: NDArray[Any] = action.cpu().numpy()
    host = host.reshape(len(host), *env.single_action_space.shape)
    if host.dtype.kind != "f":
        return host
    clipped: NDArray[Any] = np.clip(host, env.single_action_space.low, env.single_action_space.high)
    return clipped


def _store(
    state: State,
    config: Config,
    t: int,
    reward: NDArray[Any],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_],
    info: dict[str, Any],
    metrics: Metrics,
) -> None:
    rollout = state.rollout
    device = rollout.reward.device
    row = rollout.reward[t]
    row.copy_(torch.from_numpy(reward))
    done = rollout.done[t]
    if "_final_obs" not in info:
        done.zero_()
        if state.return_moments is not None:
            _scale_rewards(state, config, row, done)
        return
    ended = terminated | truncated
    done.copy_(torch.from_numpy(ended))
    if state.return_moments is not None:
        _scale_rewards(state, config, row, done)
    cut = truncated & ~terminated  # a time limit may fall on the very step that ends the episode
    if cut.any():
        _bootstrap(state, config, row, cut, info)
    for name, values in info["final_info"].items():
        metrics.episodes.setdefault(name, []).extend(values[ended].tolist())
    state.episodes += int(ended.sum())
    if state.memory:
        alive = (1.0 - done)[:, None].to(device)
        state.memory = tuple(part * alive for part in state.memory)


def _bootstrap(state: State, config: Config, reward: Tensor, truncated: NDArray[np.bool_], info: dict[str, Any]) -> None:
    """Add the value of where an episode was cut off to its last reward."""
    rows = np.flatnonzero(truncated)
    last = torch.from_numpy(np.ascontiguousarray(info["final_obs"][rows])).to(reward.device)
    if state.obs_moments is not None:
        last = state.obs_moments.normalize(last)
    index = torch.from_numpy(rows).to(reward.device)
    memory = tuple(part[index] for part in state.memory)
    value = state.net(_as_input(last.to(state.rollout.obs.dtype)), memory)[1]
    reward[index] += config.gamma * value


def _scale_rewards(state: State, config: Config, reward: Tensor, done: Tensor) -> None:
    assert state.return_moments is not None
    state.returns.mul_(config.gamma).add_(reward)
    state.return_moments.add(state.returns)
    reward.mul_(state.return_moments.scale)
    state.returns.mul_(1 - done)


# -- learning --


def learn(state: State, config: Config, clock: StageClock, done: float) -> dict[str, list[Tensor]]:
    """Some epochs of minibatches. Returns losses and the like, still on the device."""
    rollout = state.rollout
    entropy_end = config.entropy if config.entropy_end is None else config.entropy_end
    entropy_weight = config.entropy + done * (entropy_end - config.entropy)
    losses: dict[str, list[Tensor]] = {name: [] for name in ("loss", "policy_loss", "value_loss", "entropy", "kl", "clipped")}
    recurrent = bool(rollout.memory)
    rows = config.num_envs if recurrent else config.num_envs * config.horizon
    size = min(rows, config.minibatch // config.horizon if recurrent else config.minibatch)
    with clock.stage(stages.SAMPLE):
        whole = _flatten(rollout)
    for _ in range(config.epochs):
        with clock.stage(stages.SAMPLE):
            order = torch.randperm(rows, generator=state.generator, device=rollout.obs.device)
            mixed = {} if recurrent else {name: part[order] for name, part in whole.items()}
            if state.fused is not None:
                mixed = prepare(config, mixed, size)
        for begin in range(0, rows - size + 1, size):
            with clock.stage(stages.SAMPLE):
                chosen = slice(begin, begin + size)
                batch = (
                    _sequences(rollout, order[chosen]) if recurrent else {name: part[chosen] for name, part in mixed.items()}
                )
            last = begin + 2 * size > rows
            with clock.stage(stages.UPDATE):
                update(state, config, clock, batch, entropy_weight, losses if last else None)
            clock.count(UPDATES)
        if config.target_kl and float(losses["kl"][-1]) > config.target_kl:
            break
    return losses


def _rows(rollout: Rollout) -> dict[str, Tensor]:
    """What is learned from, [horizon, num_envs, ...]."""
    parts = {
        "obs": rollout.obs[:-1],
        "action": rollout.action,
        "logp": rollout.logp,
        "value": rollout.value[:-1],
        "advantage": rollout.advantage,
    }
    return parts if rollout.mask is None else {**parts, "mask": rollout.mask}


def _flatten(rollout: Rollout) -> dict[str, Tensor]:
    """The rollout as rows [horizon * num_envs, ...], without copies."""
    return {name: part.flatten(0, 1) for name, part in _rows(rollout).items()}


def _sequences(rollout: Rollout, envs: Tensor) -> dict[str, Any]:
    """Whole sequences of some environments: rows are time-major, [horizon * envs, ...]; `obs` and `done` keep their times."""
    found: dict[str, Any] = {name: part[:, envs].flatten(0, 1) for name, part in _rows(rollout).items() if name != "obs"}
    memory = tuple(part[envs] for part in rollout.memory)
    return {**found, "obs": rollout.obs[:-1, envs], "done": rollout.done[:, envs], "memory": memory}


def update(
    state: State,
    config: Config,
    clock: StageClock,
    batch: dict[str, Any],
    entropy_weight: float,
    losses: dict[str, list[Tensor]] | None,
) -> None:
    """One minibatch; its losses are kept if there is where to."""
    gradient = state.flat.grad
    assert gradient is not None
    if state.fused is not None:
        with torch.no_grad():
            with clock.stage(stages.LOSS):
                output, value = state.fused.forward(_as_input(batch["obs"]))
                to_logits, to_value, found = gradients(config, batch, output, value, entropy_weight, losses is not None)
            with clock.stage(stages.BACKWARD):
                state.fused.backward(to_logits, to_value)
    else:
        with clock.stage(stages.LOSS):
            output, value = forward(state.net, batch)
            found = loss_of(state.actions, config, batch, output, value, entropy_weight)
        with clock.stage(stages.BACKWARD):
            gradient.zero_()
            found["loss"].backward()  # type: ignore[no-untyped-call]
    with clock.stage(stages.OPTIMIZER):
        if config.grad_clip:
            clip(gradient, config.grad_clip)
        state.optimizer.step(gradient)
    state.updates += 1
    if losses is not None:
        for name, part in found.items():
            losses[name].append(part.detach())


def forward(net: Policy, batch: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The network on a minibatch; a recurrent one step by step, its memory cleared where an episode ended."""
    if "memory" not in batch:
        output, value, _ = net(_as_input(batch["obs"]))
        return output, value
    memory, outputs, values = batch["memory"], [], []
    alive = (1.0 - batch["done"])[..., None]
    for t, obs in enumerate(batch["obs"]):
        output, value, memory = net(_as_input(obs), memory)
        memory = tuple(part * alive[t] for part in memory)
        outputs.append(output)
        values.append(value)
    return torch.cat(outputs), torch.cat(values)


def loss_of(
    actions: Actions, config: Config, batch: dict[str, Any], output: Tensor, value: Tensor, entropy_weight: float
) -> dict[str, Tensor]:
    """The clipped surrogate, the value's error and the entropy."""
    logp, entropy = actions.evaluate(output, batch["action"], batch.get("mask"))
    advantage, old_value = batch["advantage"], batch["value"]
    goal = advantage + old_value
    if config.normalize_advantage and len(advantage) > 1:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    log_ratio = logp - batch["logp"]
    ratio = log_ratio.exp()
    policy_loss = -torch.min(advantage * ratio, advantage * ratio.clamp(1 - config.clip, 1 + config.clip)).mean()
    error = (value - goal) ** 2
    if config.value_clip:
        near = old_value + (value - old_value).clamp(-config.value_clip, config.value_clip)
        error = torch.max(error, (near - goal) ** 2)
    value_loss = 0.5 * error.mean()
    spread = entropy.mean()
    loss = policy_loss + config.value_weight * value_loss - entropy_weight * spread
    with torch.no_grad():
        kl = (ratio - 1 - log_ratio).mean()
        clipped = ((ratio - 1).abs() > config.clip).float().mean()
    return {"loss": loss, "policy_loss": policy_loss, "value_loss": value_loss, "entropy": spread, "kl": kl, "clipped": clipped}


# -- evaluation --


@torch.inference_mode()
def evaluate(state: State, env: Any, seed: int) -> dict[str, NDArray[np.float64]]:
    """Play one greedy episode in each environment of `env`; per episode: return, length and the game's own metrics."""
    obs, info = env.reset(seed=seed)
    memory = state.net.initial(env.num_envs)
    result: dict[str, NDArray[np.float64]] = {}
    waiting = np.ones(env.num_envs, bool)
    device = state.rollout.obs.device
    while waiting.any():
        seen = torch.from_numpy(obs).to(device)
        seen = state.obs_moments.normalize(seen) if state.obs_moments is not None else seen.to(state.rollout.obs.dtype)
        mask = info.get("action_mask")
        output, _, memory = state.net(_as_input(seen), memory)
        action = state.actions.best(output, None if mask is None else torch.from_numpy(mask).to(device))
        obs, _, terminated, truncated, info = env.step(_for_env(action, env))
        if "_final_info" in info:
            first = info["_final_info"] & waiting
            waiting &= ~first
            for name, values in info["final_info"].items():
                result.setdefault(name, np.zeros(env.num_envs))[first] = values[first]
            if memory:
                alive = torch.from_numpy(~(terminated | truncated)).to(device)[:, None]
                memory = tuple(part * alive for part in memory)
    return result


def networks(state: State) -> dict[str, nn.Module]:
    """What `profile --modules` times; a network that is computed by hand calls none of its modules."""
    return {} if state.fused is not None else {"net": state.net}


# -- checkpoint --

_COUNTERS = ("env_steps", "updates", "episodes", "iterations")


def save_state(state: State, env: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Everything that the rest of the run depends on: arrays and plain numbers."""
    tensors = {f"net.{k}": v for k, v in state.net.state_dict().items()}
    tensors |= {"optimizer.mean": state.optimizer.mean, "optimizer.square": state.optimizer.square}
    tensors |= {f"memory.{i}": part for i, part in enumerate(state.memory)}
    for name, found in (("obs_moments", state.obs_moments), ("return_moments", state.return_moments)):
        tensors |= {} if found is None else {f"{name}.{k}": v for k, v in found.state().items()}
    tensors |= {"generator": state.generator.get_state(), "returns": state.returns}
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    if state.mask is not None:
        arrays["mask"] = state.mask
    arrays |= {f"env.{k}": v for k, v in env.state().items()}
    return arrays, {name: getattr(state, name) for name in _COUNTERS} | {"optimizer_steps": state.optimizer.steps}


def load_state(state: State, env: Any, arrays: dict[str, NDArray[Any]], numbers: dict[str, Any]) -> None:
    """Put a fresh `start` exactly where `save_state` was taken."""
    device = state.rollout.obs.device

    def part(prefix: str) -> dict[str, NDArray[Any]]:
        return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}

    def tensors(prefix: str) -> dict[str, Tensor]:
        return {k: torch.from_numpy(np.array(v)).to(device) for k, v in part(prefix).items()}

    state.net.load_state_dict(tensors("net."))
    moments = tensors("optimizer.")
    state.optimizer.mean, state.optimizer.square = moments["mean"], moments["square"]
    state.optimizer.steps = numbers["optimizer_steps"]
    state.memory = tuple(tensor for _, tensor in sorted(tensors("memory.").items()))
    for name, found in (("obs_moments", state.obs_moments), ("return_moments", state.return_moments)):
        if found is not None:
            found.load(tensors(f"{name}."))
    state.returns = torch.from_numpy(np.array(arrays["returns"])).to(device)
    state.generator.set_state(torch.from_numpy(np.array(arrays["generator"])))
    for name in _COUNTERS:
        setattr(state, name, numbers[name])
    state.mask = np.array(arrays["mask"]) if "mask" in arrays else None
    state.obs = env.load_state(part("env."))
    if not env.restores:  # its episodes began anew
        state.obs, info = env.reset(seed=np.random.SeedSequence([state.env_steps]).generate_state(env.num_envs).tolist())
        state.mask, state.memory = info.get("action_mask"), state.net.initial(env.num_envs)
        state.returns.zero_()
