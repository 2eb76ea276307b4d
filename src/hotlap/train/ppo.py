"""PPO, top to bottom: one iteration collects `horizon` vector steps and learns from them for some epochs.

    state = start(config, env)
    while state.env_steps < config.total_steps:
        with clock.iteration():
            metrics = iterate(state, config, env, clock)

Discrete, multi-discrete and continuous actions, action masks; feed-forward networks, LSTM or GRU cells, attention over the
past; one agent, simultaneous agents, turn-based games. Everything lives in time-major tensors that are allocated once
(`rollout.py`), into which environments write themselves; the gradient of small networks is computed by hand (`fused.py`). A
truncated episode bootstraps from its true last observation, a terminated one does not; a network's memory is cleared where an
episode begins. Nothing in an update waits for the device.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hotlap.core import stages
from hotlap.core.clock import StageClock
from hotlap.core.counts import ENV_STEPS, EPISODES, UPDATES
from hotlap.envs.buffers import StepBuffers
from hotlap.envs.spec import EnvSpec
from hotlap.train import parallel, rating, selfplay
from hotlap.train.actions import Actions, Discrete, actions_of
from hotlap.train.advantage import MAX_SEATS, gae, gae_of_seats
from hotlap.train.checkpoint import part_of, tensors_of
from hotlap.train.configs import PPOConfig, check
from hotlap.train.dense import ActorKernel
from hotlap.train.evaluation import Played, play
from hotlap.train.fast import keep_memory
from hotlap.train.flat import Adam, flatten
from hotlap.train.fused import FusedPolicy, FusedRecurrent, compute_by_hand, gradients
from hotlap.train.memory import Memory
from hotlap.train.metrics import Metrics
from hotlap.train.nets import NETS, Policy, PolicyMaker, named
from hotlap.train.normalize import Moments
from hotlap.train.rollout import Rollout, Rows, minibatches

Config = PPOConfig


@dataclass
class State:
    """All that a run depends on, besides its config and its environments."""

    net: Policy
    flat: nn.Parameter  # all parameters of the network, which has views of it
    by_hand: FusedPolicy | FusedRecurrent | None  # the network's gradient, where it can be computed so
    actor_kernel: ActorKernel | None  # acts for a few rows in one call
    forward: Callable[..., Any]  # the network for acting, and its loss for learning; compiled if asked for
    compute_loss: Callable[..., dict[str, Tensor]]
    actions: Actions
    optimizer: Adam
    generators: list[torch.Generator]  # one for each group of rows, so that their order does not matter
    rollout: Rollout
    memory: Memory  # of the network, now
    obs_moments: Moments | None
    return_moments: Moments | None
    returns: Tensor  # [rows] discounted so far, to scale rewards by
    opponents: selfplay.Opponents | None
    env_steps: int = 0
    updates: int = 0
    episodes: int = 0
    iterations: int = 0


def validate(config: Config) -> None:
    """Refuse a config that cannot work."""
    check(
        config,
        ones=("horizon", "epochs", "batch_size", "accumulate", "async_factor", "context", "opponent_every"),
        zeros=("clip", "value_clip", "value_weight", "entropy", "target_kl", "priority_alpha", "opponents"),
        fractions=("gae_lambda", "priority_beta", "opponent_share"),
        words={
            "activation": ("tanh", "relu"),
            "memory": ("none", "lstm", "gru", "attention"),
            "precision": ("float32", "bfloat16"),
        },
    )
    if config.async_factor > 1 and (config.normalize_obs or config.normalize_reward):
        raise ValueError(
            "async-factor does not work with normalize-obs and normalize-reward: they depend on which group comes first"
        )
    unit = config.horizon * config.accumulate if by_sequences(config) else config.accumulate
    if config.batch_size % unit:
        what = "accumulate x horizon: whole sequences" if by_sequences(config) else "accumulate"
        raise ValueError(f"batch-size must be a multiple of {unit} ({what}), not {config.batch_size}")


def by_sequences(config: Config) -> bool:
    return config.memory != "none" or config.sequences or config.priority_alpha > 0


def _check_game(config: Config, env: Any) -> None:
    """Refuse what these environments cannot be trained with."""
    if env.env_spec.seats > MAX_SEATS:
        raise ValueError(f"a game may have at most {MAX_SEATS} seats, not {env.env_spec.seats}")
    columns = min(env.num_envs, config.batch_size // config.horizon)
    if by_sequences(config) and columns < config.accumulate:
        raise ValueError(f"{columns} sequences per minibatch cannot be split into {config.accumulate} parts (accumulate)")
    if np.any(getattr(env.single_action_space, "start", 0)):
        raise ValueError("discrete actions must start at 0")
    if env.env_spec.obs_size and config.normalize_obs:
        raise ValueError("normalize-obs does not work with sparse observations, which are zeros and ones")
    if env.env_spec.seats > 1:
        if len(env.env_spec.action_sizes) != 1:
            raise ValueError(f"turn-based games need one discrete action, not {env.single_action_space}")
        for name in ("memory", "normalize_reward", "priority_alpha", "sequences"):
            if getattr(config, name) not in ("none", False, 0):
                raise ValueError(f"{name.replace('_', '-')} does not work in turn-based games")


def make_net(config: Config, spec: EnvSpec, nets: Mapping[str, PolicyMaker] = NETS) -> Policy:
    """The network that the config names, for environments of this declaration."""
    actions = actions_of(spec)
    return named(nets, config.net)(config, spec, actions.outputs, actions.deviations)


def start(config: Config, env: Any, nets: Mapping[str, PolicyMaker] = NETS) -> State:
    """Network, optimizer, empty rollout, environments reset."""
    validate(config)
    _check_game(config, env)
    torch.set_num_threads(config.torch_threads)
    keep_memory()
    torch.manual_seed(config.seed)
    device = torch.device(config.device)
    actions = actions_of(env.env_spec)
    net = make_net(config, env.env_spec, nets).to(device)
    flat = flatten(net)
    parallel.same(flat.data)
    env.reset(seed=_seeds([config.seed], env.num_envs))
    opponents = None
    if env.env_spec.seats > 1 and config.opponents:
        other = make_net(config, env.env_spec, nets).to(device)
        opponents = selfplay.Opponents(
            other, flatten(other), config.opponents, config.opponent_share, env.num_envs, env.env_spec.seats
        )
        opponents.add(flat.data)
    plain = config.precision == "float32" and not config.compile
    by_hand: FusedPolicy | FusedRecurrent | None = None
    weighted = env.env_spec.agents > 1 and by_sequences(config)  # whose loss is computed by autograd alone
    if plain and isinstance(actions, Discrete) and not actions.shape and not weighted:
        by_hand = compute_by_hand(net, flat, config.torch_threads)
    return State(
        net=net,
        flat=flat,
        by_hand=by_hand,
        actor_kernel=_actor_kernel(by_hand, env, opponents, config),
        forward=torch.compile(net) if config.compile else net,
        compute_loss=torch.compile(compute_loss) if config.compile else compute_loss,
        actions=actions,
        optimizer=Adam(flat, config.learning_rate, eps=1e-5, clip=config.grad_clip),
        generators=[_generator(device, config.seed, group) for group in range(len(env.groups))],
        rollout=Rollout.allocate(config, env, actions, net.initial(env.num_envs), device),
        memory=net.initial(env.num_envs),
        obs_moments=Moments(env.single_observation_space.shape, device) if config.normalize_obs else None,
        return_moments=Moments((), device) if config.normalize_reward else None,
        returns=torch.zeros(env.num_envs, device=device),
        opponents=opponents,
    )


def _actor_kernel(by_hand: Any, env: Any, opponents: Any, config: Config) -> ActorKernel | None:
    if not isinstance(by_hand, FusedPolicy) or opponents is not None:
        return None
    space = env.single_observation_space
    if config.normalize_obs or space.dtype.kind == "f":  # the rollout's observations are numbers to compute with
        return by_hand.actor_kernel(max(rows.stop - rows.start for rows in env.groups), int(np.prod(space.shape)))
    return None


def _seeds(entropy: list[int], rows: int) -> list[int]:
    """Seeds for the rows of this process: those of one process with all the rows."""
    first = parallel.rank() * rows
    return np.random.SeedSequence(entropy).generate_state(first + rows)[first:].tolist()  # type: ignore[no-any-return]


def _generator(device: torch.device, seed: int, *more: int) -> torch.Generator:
    key = (parallel.rank(), *more)
    mixed = int(np.random.SeedSequence([seed, *key]).generate_state(1, np.uint64)[0]) >> 1 if any(key) else seed
    return torch.Generator(device).manual_seed(mixed)


def iterate(state: State, config: Config, env: Any, clock: StageClock) -> Metrics:
    """Collect and learn for one iteration."""
    metrics = Metrics()
    progress = min(1.0, state.env_steps / config.total_steps)  # for the schedules
    with clock.stage(stages.COLLECT):
        collect(state, config, env, clock, metrics)
    clock.count(ENV_STEPS, config.horizon * env.num_envs * parallel.world())
    with clock.stage(stages.ADVANTAGE):
        compute_advantages(state, config)
    if config.anneal:
        state.optimizer.rate.fill_(config.learning_rate * (1 - progress))
    losses = learn(state, config, clock, progress)
    state.iterations += 1
    if state.opponents is not None and state.iterations % config.opponent_every == 0:
        state.opponents.add(state.flat.data)
    with clock.stage(stages.LOG):
        losses_mean = [torch.stack(parts).mean() for parts in losses.values() if parts]
        means = torch.stack([*losses_mean, state.optimizer.rate]).tolist()  # the only wait for the device
        names = [*(name for name, parts in losses.items() if parts), "learning_rate"]
        metrics.scalars = {f"train/{name}": value for name, value in zip(names, means, strict=True)}
    clock.count(EPISODES, len(metrics.episodes.get("return", ())))
    return metrics


def learning(state: State, config: Config) -> bool:
    """PPO learns from the first iteration on."""
    return True


# -- collecting --


@torch.inference_mode()
def collect(state: State, config: Config, env: Any, clock: StageClock, metrics: Metrics) -> None:
    """`horizon` steps of every row into the rollout. Groups of rows that step apart need not be at the same step."""
    rollout = state.rollout
    for kept, now in zip(rollout.memory, state.memory, strict=True):
        kept.copy_(now)
    if state.opponents is not None:
        state.opponents.draw(config.seed, state.iterations)
    env.rewind()
    times = [0] * len(env.groups)
    ready = list(range(len(env.groups)))
    for group in ready:
        _place(state, env, group, 0)
    stepping = stages.WAIT if env.engine.workers else stages.ENV_STEP
    draws = _draws(state, config, env)
    while ready:
        for group in ready:
            if times[group] < config.horizon:
                with clock.stage(stages.ACT):
                    action = act(state, config, env.groups[group], times[group], state.generators[group], draws[group])
                    env.send(group, state.actions.to_env(action))
        with clock.stage(stepping):
            ready = env.receive()
        with clock.stage(stages.STORE):
            for group in ready:
                _store(state, config, env, group, times[group], metrics)
                times[group] += 1
                _place(state, env, group, times[group])
    with clock.stage(stages.ACT):
        if isinstance(state.by_hand, FusedPolicy):
            _evaluate_rollout(state, state.by_hand)
        else:
            with _cast(config):
                rollout.value[config.horizon] = state.forward(rollout.obs[config.horizon], state.memory)[1]
    state.env_steps += config.horizon * env.num_envs * parallel.world()


def _draws(state: State, config: Config, env: Any) -> list[Tensor | None]:
    """For each group of rows, if it acts in one call: the random numbers of all its steps."""
    if state.actor_kernel is None:
        return [None] * len(env.groups)
    shapes = [(config.horizon, rows.stop - rows.start) for rows in env.groups]
    return [torch.rand(shape, generator=generator) for shape, generator in zip(shapes, state.generators, strict=True)]


def act(state: State, config: Config, rows: slice, t: int, generator: torch.Generator, draws: Tensor | None = None) -> Tensor:
    """Sample the actions of these rows at step t; keep their log-probabilities and the values of the states."""
    rollout = state.rollout
    if state.actor_kernel is not None and draws is not None:
        chosen = rollout.action[t, rows]
        mask = None if rollout.mask is None else rollout.mask[t, rows]
        state.actor_kernel.act(rollout.obs[t, rows], mask, draws[t], chosen)
        return chosen
    all_rows = rows.stop - rows.start == rollout.action.shape[1]
    obs = rollout.obs[t] if all_rows else rollout.obs[t, rows]
    mask = None if rollout.mask is None else rollout.mask[t, rows]
    later = isinstance(state.by_hand, FusedPolicy)  # log-probabilities and values come at the end, for all steps at once
    if isinstance(state.by_hand, FusedPolicy):
        output = state.by_hand.logits(state.net.encoder(obs))
    else:
        memory = state.memory if all_rows else tuple(part[rows] for part in state.memory)
        with _cast(config):
            forward = state.by_hand.act if state.by_hand is not None else state.forward
            seen = state.net.encoder(obs) if state.by_hand is not None else obs
            output, rollout.value[t, rows], memory = forward(seen, memory)
        _remember(state, rows, memory)
    if state.opponents is not None and rollout.turns is not None:
        others = np.flatnonzero(~state.opponents.learner(rollout.turns.seat[t, rows], rows))
        index = torch.from_numpy(others).to(obs.device)
        output[index] = state.opponents.net(obs[index])[0]
    if later:
        action = state.actions.sample_action(output, generator, mask)
    else:
        action, rollout.log_prob[t, rows] = state.actions.sample(output, generator, mask)
    rollout.action[t, rows] = action
    return action


def _remember(state: State, rows: slice, memory: Memory) -> None:
    if len(memory) and len(memory[0]) == len(state.memory[0]):
        state.memory = tuple(part.float() for part in memory)
    else:
        for kept, part in zip(state.memory, memory, strict=True):
            kept[rows] = part


def _evaluate_rollout(state: State, fused: FusedPolicy) -> None:
    """Log-probabilities of all actions of the rollout, and the values of its states."""
    rollout = state.rollout
    assert isinstance(state.actions, Discrete)
    steps, rows = rollout.action.shape
    some = max(1, fused.cached_rows // rows)
    for begin in range(0, steps + 1, some):
        seen = rollout.obs[begin : begin + some]
        logits, value = fused.forward(state.net.encoder(seen.flatten(0, 1)))
        rollout.value[begin : begin + some] = value.view(-1, rows)
        acted = rollout.action[begin : begin + some].flatten()
        if len(acted):
            mask = None if rollout.mask is None else rollout.mask[begin : begin + some].flatten(0, 1)[: len(acted)]
            log_prob = state.actions.log_prob(logits[: len(acted)], acted, mask)
            rollout.log_prob[begin : begin + some] = log_prob.view(-1, rows)


def _place(state: State, env: Any, group: int, t: int) -> None:
    """Put where a group of rows is into step t of the rollout, unless the environments did so themselves."""
    rollout, rows = state.rollout, env.groups[group]
    out, _ = env.outcome(group)
    if rollout.valid is not None and t < len(rollout.valid) and out.active.size:
        rollout.valid[t, rows] = out.active
    if rollout.in_place:
        return
    obs = torch.from_numpy(out.obs).to(rollout.obs.device)
    if state.obs_moments is not None:
        if t < len(rollout.reward):  # the last row is the first of the next rollout
            state.obs_moments.add(obs)
        obs = state.obs_moments.normalize(obs)
    rollout.obs[t, rows] = obs.to(rollout.obs.dtype)
    if rollout.mask is not None:
        rollout.mask[t, rows] = torch.from_numpy(out.mask).to(rollout.mask.device)
    if rollout.turns is not None:
        rollout.turns.seat[t, rows] = out.seat


def _cast(config: Config) -> Any:
    """Mixed precision, if asked for."""
    return torch.autocast(torch.device(config.device).type, torch.bfloat16, enabled=config.precision == "bfloat16")


def _encoded(net: Policy, batch: Rows) -> Tensor:
    """Observations as a network that is computed by hand takes them."""
    obs = batch["obs"]
    encoded: Tensor = net.encoder(obs.flatten(0, 1)).view(*obs.shape[:2], -1) if "memory" in batch else net.encoder(obs)
    return encoded


def _store(state: State, config: Config, env: Any, group: int, t: int, metrics: Metrics) -> None:
    """Keep what step t of a group of rows led to."""
    rollout, rows = state.rollout, env.groups[group]
    out, finished = env.outcome(group)
    reward, done = rollout.reward[t, rows], rollout.done[t, rows]
    if not rollout.in_place:
        reward.copy_(torch.from_numpy(out.reward))
        if rollout.turns is not None:
            rollout.turns.rewards[t, rows] = out.rewards
    ended = out.terminated | out.truncated if finished else None
    fresh = ended  # rows that begin an episode
    if rollout.valid is not None and out.active.size:  # so do agents that wait for the others
        waiting = ~rollout.valid[t, rows]
        fresh = waiting if ended is None else ended | waiting
    if fresh is None:
        done.zero_()
    else:
        done.copy_(torch.from_numpy(fresh))
    if state.return_moments is not None:
        _scale_rewards(state, config, rows, reward, done)
    if ended is not None:
        _note_ends(state, config, env, group, t, ended, metrics)
    if fresh is not None:
        for part in state.memory:
            part[rows][torch.from_numpy(np.flatnonzero(fresh)).to(part.device)] = 0.0


def _note_ends(state: State, config: Config, env: Any, group: int, t: int, ended: NDArray[np.bool_], metrics: Metrics) -> None:
    """Bootstrap where episodes were cut off, and keep the returns of those that ended."""
    rows = env.groups[group]
    out, finished = env.outcome(group)
    cut = out.truncated & ~out.terminated  # a time limit may fall on the very step that ends the episode
    if cut.any():
        _bootstrap(state, config, rows, t, cut, out)
    for name, values in env.final_info(out).items():
        if name != "returns":
            metrics.episodes.setdefault(name, []).extend(values[ended].tolist())
        elif state.opponents is not None and (won := state.opponents.scores(values, ended, rows)):
            metrics.episodes.setdefault("score_against_past", []).extend(won)
    state.episodes += finished


def cleared(memory: Memory, done: Tensor) -> Memory:
    """The memory, reset to zero in rows whose episode is done."""
    return tuple(part * (1.0 - done).view(-1, *[1] * (part.ndim - 1)) for part in memory)


def _bootstrap(state: State, config: Config, rows: slice, t: int, truncated: NDArray[np.bool_], out: StepBuffers) -> None:
    """Add the value of where an episode was cut off to its last reward."""
    rollout, chosen = state.rollout, np.flatnonzero(truncated)
    device = rollout.reward.device
    last = torch.from_numpy(np.ascontiguousarray(out.final_obs[chosen])).to(device)
    if state.obs_moments is not None:
        last = state.obs_moments.normalize(last)
    index = torch.from_numpy(chosen).to(device)
    memory = tuple(part[rows][index] for part in state.memory)
    value = config.gamma * state.net(last.to(rollout.obs.dtype), memory)[1]
    if rollout.turns is None:
        rollout.reward[t, rows][index] += value
        return
    seat = out.final_seat[chosen]
    rollout.turns.rewards[t, rows][chosen, seat] += value.cpu().numpy()
    rollout.turns.last[t, rows][chosen] = seat
    rollout.done[t, rows][index] = 2.0


def _scale_rewards(state: State, config: Config, rows: slice, reward: Tensor, done: Tensor) -> None:
    assert state.return_moments is not None
    returns = state.returns[rows]
    returns.mul_(config.gamma).add_(reward)
    state.return_moments.add(returns)
    reward.mul_(state.return_moments.scale)
    returns.mul_(1 - done)


def compute_advantages(state: State, config: Config) -> None:
    """Advantages of every decision, and which decisions can be learned from."""
    rollout, gamma, lam = state.rollout, config.gamma, config.gae_lambda
    if rollout.turns is None:
        gae(rollout.reward, rollout.value, rollout.done, gamma, lam, rollout.advantage)
        return
    seat, rewards, last = (torch.from_numpy(part).to(rollout.value.device) for part in vars(rollout.turns).values())
    advantage, known = gae_of_seats(rewards, rollout.value, rollout.done, seat, last, gamma, lam)
    rollout.advantage.copy_(advantage)
    rollout.valid = known.cpu().numpy()
    if state.opponents is not None:
        rollout.valid &= state.opponents.learner(rollout.turns.seat[:-1])


# -- learning --

LOSSES = ("loss", "policy_loss", "value_loss", "entropy", "kl", "clipped")


def learn(state: State, config: Config, clock: StageClock, progress: float) -> dict[str, list[Tensor]]:
    """Some epochs of minibatches. Returns losses and the like, still on the device, of each epoch's last minibatch."""
    entropy_end = config.entropy if config.entropy_end is None else config.entropy_end
    entropy_weight: Any = config.entropy + progress * (entropy_end - config.entropy)
    if config.compile:
        entropy_weight = torch.tensor(entropy_weight, device=state.flat.device)  # a number would be compiled in
    losses: dict[str, list[Tensor]] = {name: [] for name in LOSSES}
    state.optimizer.skip.zero_()
    for _ in range(config.epochs):
        batches = minibatches(state.rollout, config, state.generators[0], progress, state.by_hand)
        with clock.stage(stages.SAMPLE):
            coming = next(batches, None)
        while (batch := coming) is not None:
            with clock.stage(stages.SAMPLE):
                coming = next(batches, None)
            with clock.stage(stages.UPDATE):
                update(state, config, clock, batch, entropy_weight, losses if coming is None else None)
            clock.count(UPDATES)
        if config.target_kl and losses["kl"]:
            moved = parallel.mean(losses["kl"][-1].clone()) > config.target_kl
            state.optimizer.skip.copy_(torch.maximum(state.optimizer.skip, moved.float()))
            if not state.flat.is_cuda and state.optimizer.skip:  # a GPU is not asked: it skips what is left
                break
    return losses


def update(
    state: State,
    config: Config,
    clock: StageClock,
    batch: list[Rows],
    entropy_weight: Any,
    losses: dict[str, list[Tensor]] | None,
) -> None:
    """One minibatch, which comes in parts; the losses of the last part are appended to `losses`, if given."""
    gradient = state.flat.grad
    assert gradient is not None
    total = torch.zeros_like(gradient) if len(batch) > 1 else None
    for part in batch:
        if state.by_hand is not None:
            with torch.no_grad():
                with clock.stage(stages.LOSS):
                    output, value = state.by_hand.on({**part, "obs": _encoded(state.net, part)})
                    to_logits, to_value, parts = gradients(config, part, output, value, entropy_weight, losses is not None)
                with clock.stage(stages.BACKWARD):
                    state.by_hand.backward(to_logits, to_value)
        else:
            with clock.stage(stages.LOSS):
                parts = state.compute_loss(state.net, state.actions, config, part, entropy_weight)
            with clock.stage(stages.BACKWARD):
                gradient.zero_()
                parts["loss"].backward()  # type: ignore[no-untyped-call]
        if total is not None:
            total.add_(gradient, alpha=1 / len(batch))
    with clock.stage(stages.OPTIMIZER):
        if total is not None:
            gradient.copy_(total)
        state.optimizer.step(parallel.mean(gradient))
    state.updates += 1
    if losses is not None:
        for name, value in parts.items():
            losses[name].append(value.detach())


def compute_loss(net: Policy, actions: Actions, config: Config, batch: Rows, entropy_weight: Any) -> dict[str, Tensor]:
    """The network on a minibatch, and its loss."""
    with _cast(config):
        output, value = forward(net, batch)
    return ppo_loss(actions, config, batch, output, value, entropy_weight)


def forward(net: Policy, batch: Rows) -> tuple[Tensor, Tensor]:
    """The network on a minibatch; with a memory on whole sequences, cleared where an episode ended."""
    if "memory" in batch:
        return net.sequence(batch["obs"], batch["done"], batch["memory"])
    output, value, _ = net(batch["obs"])
    return output, value


def ppo_loss(
    actions: Actions, config: Config, batch: Rows, output: Tensor, value: Tensor, entropy_weight: Any
) -> dict[str, Tensor]:
    """The clipped surrogate, the value's error and the entropy."""
    weight = batch.get("weight")

    def mean(parts: Tensor) -> Tensor:
        return parts.mean() if weight is None else (parts * weight).sum() / weight.sum().clamp(min=1)

    log_prob, entropy = actions.evaluate(output, batch["action"], batch.get("mask"))
    advantage, returns, old_value = batch["scaled_advantage"], batch["returns"], batch["value"]
    log_ratio = log_prob - batch["log_prob"]
    ratio = log_ratio.exp()
    policy_loss = -mean(torch.min(advantage * ratio, advantage * ratio.clamp(1 - config.clip, 1 + config.clip)))
    error = (value - returns) ** 2
    if config.value_clip:
        near = old_value + (value - old_value).clamp(-config.value_clip, config.value_clip)
        error = torch.max(error, (near - returns) ** 2)
    value_loss, mean_entropy = 0.5 * mean(error), mean(entropy)
    loss = policy_loss + config.value_weight * value_loss - entropy_weight * mean_entropy
    with torch.no_grad():
        kl = mean(ratio - 1 - log_ratio)
        clipped = mean(((ratio - 1).abs() > config.clip).float())
    return {
        "loss": loss,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": mean_entropy,
        "kl": kl,
        "clipped": clipped,
    }


# -- evaluation --


@dataclass(frozen=True)
class GreedyPolicy:
    """The most probable actions. The memory of a policy that begins an episode is `()`."""

    net: Policy
    actions: Actions
    obs_moments: Moments | None = None

    @torch.inference_mode()
    def __call__(self, obs: Tensor, mask: Tensor | None = None, memory: Memory = ()) -> tuple[Tensor, Memory]:
        """Actions [batch, ...] and the new memory, from observations [batch, ...] as environments give them."""
        obs = self.obs_moments.normalize(obs) if self.obs_moments is not None else obs
        output, _, memory = self.net(obs, memory)
        return self.actions.greedy(output, mask), memory


def load_policy(
    config: Config, spec: EnvSpec, nets: Mapping[str, PolicyMaker], arrays: dict[str, NDArray[Any]]
) -> GreedyPolicy:
    """The policy of a checkpoint's arrays, without environments around it, on the config's device."""
    device = torch.device(config.device)
    net = make_net(config, spec, nets).to(device)
    net.load_state_dict(tensors_of(arrays, device, "net."))
    moments = Moments(spec.obs_shape, device) if config.normalize_obs else None
    if moments is not None:
        moments.load(tensors_of(arrays, device, "obs_moments."))
    return GreedyPolicy(net, actions_of(spec), moments)


@torch.inference_mode()
def evaluate(state: State, env: Any, seed: int) -> Played:
    """Play one greedy episode in each row of `env`; per episode: return, length and the game's own metrics.

    Turn-based games: against fixed bots, with a score for each and a rating.
    """
    device = state.rollout.obs.device
    best = GreedyPolicy(state.net, state.actions, state.obs_moments)
    if env.env_spec.seats > 1:
        policy = rating.as_bot(lambda seen, mask: best(seen, mask)[0], device)
        return rating.rate(env, seed, policy, rating.bots_of(getattr(env.game, "unwrapped", env.game)))
    memory = state.net.initial(env.num_envs)

    def choose(obs: NDArray[Any], info: dict[str, Any], fresh: NDArray[np.bool_] | None) -> NDArray[Any]:
        nonlocal memory
        if fresh is not None:
            memory = cleared(memory, torch.from_numpy(fresh).to(device).float())
        mask = info.get("action_mask")
        mask = None if mask is None else torch.from_numpy(mask).to(device)
        action, memory = best(torch.from_numpy(obs).to(device), mask, memory)
        return state.actions.to_env(action)

    return play(env, seed, choose)


def networks(state: State) -> dict[str, nn.Module]:
    """What `profile --modules` times; a network that is computed by hand calls none of its modules."""
    return {} if state.by_hand is not None else {"net": state.net}


# -- checkpoint --

_COUNTERS = ("env_steps", "updates", "episodes", "iterations")


def save_state(state: State, env: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Everything that the rest of the run depends on: arrays and plain numbers."""
    tensors = {f"net.{k}": v for k, v in state.net.state_dict().items()}
    tensors |= {f"optimizer.{name}": getattr(state.optimizer, name) for name in ("mean", "square", "steps")}
    tensors |= {f"memory.{i}": part for i, part in enumerate(state.memory)}
    for name, moments in (("obs_moments", state.obs_moments), ("return_moments", state.return_moments)):
        tensors |= {} if moments is None else {f"{name}.{k}": v for k, v in moments.state().items()}
    tensors |= {f"opponents.{i:04}": part for i, part in enumerate(state.opponents.past if state.opponents else ())}
    tensors |= {f"generator.{i}": generator.get_state() for i, generator in enumerate(state.generators)}
    tensors["returns"] = state.returns
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    arrays |= {f"env.{k}": v for k, v in env.state().items()}
    return arrays, {name: getattr(state, name) for name in _COUNTERS}


def load_state(state: State, env: Any, arrays: dict[str, NDArray[Any]], numbers: dict[str, Any]) -> None:
    """Put a fresh `start` exactly where `save_state` was taken."""
    device = state.rollout.obs.device

    for name in _COUNTERS:
        setattr(state, name, numbers[name])
    state.net.load_state_dict(tensors_of(arrays, device, "net."))
    for name, tensor in tensors_of(arrays, device, "optimizer.").items():
        getattr(state.optimizer, name).copy_(tensor)
    state.memory = tuple(tensor for _, tensor in sorted(tensors_of(arrays, device, "memory.").items()))
    for name, moments in (("obs_moments", state.obs_moments), ("return_moments", state.return_moments)):
        if moments is not None:
            moments.load(tensors_of(arrays, device, f"{name}."))
    if state.opponents is not None:
        state.opponents.past = [tensor for _, tensor in sorted(tensors_of(arrays, device, "opponents.").items())]
    state.returns = torch.from_numpy(np.array(arrays["returns"])).to(device)
    for i, generator in enumerate(state.generators):
        kept = arrays.get(f"generator.{i}")
        if kept is not None and len(kept) == len(generator.get_state()):
            generator.set_state(torch.from_numpy(np.array(kept)))
        else:  # another kind of device, or another number of groups
            generator.manual_seed(_generator(device, state.env_steps, i + 1).initial_seed())
    env.load_state(part_of(arrays, "env."))
    if not env.restores:  # it began new episodes
        env.reset(seed=_seeds([state.env_steps], env.num_envs))
        state.memory = state.net.initial(env.num_envs)
        state.returns.zero_()
