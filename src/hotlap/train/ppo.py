"""PPO, top to bottom: one iteration collects `horizon` vector steps and learns from them for some epochs.

    state = start(config, env)
    while state.env_steps < config.total_steps:
        with clock.iteration():
            metrics = iterate(state, config, env, clock)

Discrete, multi-discrete and continuous actions, action masks; feed-forward networks, LSTM or GRU cells, attention over the
past; one agent, simultaneous agents, turn-based games. Everything lives in time-major tensors that are allocated once
(`rollout`), into which environments write themselves. How rows act (`acting`) and how a minibatch's gradient is computed
(`gradients`) are interfaces, whose implementations `backend` chooses from. A truncated episode bootstraps from its true last
observation, a terminated one does not; a network's memory is cleared where an episode begins. Nothing in an update waits for
the device.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hotlap.core import stages
from hotlap.core.clock import StageClock
from hotlap.core.counts import ENV_STEPS, EPISODES, UPDATES
from hotlap.envs.spec import EnvSpec
from hotlap.train import backend, finite, parallel, rating, weights
from hotlap.train.acting import Actor, Groups
from hotlap.train.actions import Actions, actions_of
from hotlap.train.advantage import gae, gae_of_seats, of_normalized_returns
from hotlap.train.auxiliary import Auxiliary, Projections, losses_of
from hotlap.train.checkpoint import Varying, part_of, tensors_of
from hotlap.train.configs import PPOConfig
from hotlap.train.configs import validate_ppo as validate
from hotlap.train.evaluation import Played, play
from hotlap.train.fast import keep_memory
from hotlap.train.flat import Adam, flatten
from hotlap.train.gradients import Gradient
from hotlap.train.greedy import PolicyPlayer, choose_with
from hotlap.train.metrics import Metrics
from hotlap.train.minibatch import Losses, Minibatch
from hotlap.train.nets import NETS, Policy, PolicyMaker, named
from hotlap.train.normalize import Moments, RewardScale
from hotlap.train.rollout import Rollout, minibatches
from hotlap.train.selfplay import Opponents

Config = PPOConfig
DROPOUT_STREAM = 1 << 20  # of random numbers: far from those of groups of rows


@dataclass
class State:
    """All that a run depends on, besides its config and its environments."""

    net: Policy
    flat: nn.Parameter  # all parameters of the network, which has views of it
    actions: Actions
    rollout: Rollout
    actor: Actor
    gradient: Gradient
    optimizer: Adam
    generators: list[torch.Generator]  # one for each group of rows, so that their order does not matter
    obs_moments: Moments | None
    reward_scale: RewardScale | None
    opponents: Opponents | None
    auxiliaries: tuple[Auxiliary, ...] = ()  # losses beside PPO's own
    env_steps: int = 0
    updates: int = 0
    episodes: int = 0
    iterations: int = 0
    bot_ratings: rating.BotRatings = field(default_factory=rating.BotRatings)  # of evaluations


def make_net(config: Config, spec: EnvSpec, nets: Mapping[str, PolicyMaker] = NETS) -> Policy:
    """The network that the config names, for environments of this declaration."""
    actions = actions_of(spec)
    net = named(nets, config.net)(config, spec, actions.outputs, actions.deviations)
    if config.contrastive:
        net.add_module("contrastive", Projections(net.units))
    return net.eval()


def start(config: Config, env: Any, nets: Mapping[str, PolicyMaker] = NETS) -> State:
    """Network, optimizer, empty rollout, environments reset."""
    validate(config)
    backend.check_environments(config, env)
    torch.set_num_threads(config.torch_threads)
    keep_memory()
    torch.manual_seed(config.seed)
    spec, rows, device = env.env_spec, env.num_envs, torch.device(config.device)
    actions = actions_of(spec)
    net = make_net(config, spec, nets).to(device)
    flat = flatten(net)
    parallel.same(flat.data)
    env.reset(seed=parallel.row_seeds([config.seed], rows))
    opponents = None
    if spec.seats > 1 and config.opponents:
        opponents = backend.past_policies(config, spec, make_net(config, spec, nets).to(device), rows)
        opponents.add(flat.data, 0)
    rollout = Rollout.allocate(config, env, actions, net.initial(rows), device)
    generators = [parallel.generator(device, config.seed, group) for group in range(len(env.groups))]
    groups = Groups(rollout, actions, env.groups, generators)
    auxiliaries = losses_of(config, spec, net, actions, rows, lambda teacher: make_net(teacher, spec, nets))
    loss = partial(ppo_loss, actions, config)
    chosen = backend.choose(config, spec, net, flat, groups, loss, opponents, auxiliaries)
    return State(
        net=net,
        flat=flat,
        actions=actions,
        rollout=rollout,
        actor=chosen.actor,
        gradient=chosen.gradient,
        optimizer=Adam(flat, config.learning_rate, eps=1e-5, clip=config.grad_clip, beta2=config.beta2),
        generators=generators,
        obs_moments=Moments(spec.obs_shape, device) if config.normalize_obs else None,
        reward_scale=RewardScale(rows, config.gamma, device) if config.normalize_reward else None,
        opponents=opponents,
        auxiliaries=auxiliaries,
    )


def iterate(state: State, config: Config, env: Any, clock: StageClock) -> Metrics:
    """Collect and learn for one iteration."""
    metrics = Metrics()
    progress = min(1.0, state.env_steps / config.total_steps)  # for the schedules
    with clock.stage(stages.COLLECT), finite.checked_steps(env, config.device, state.rollout.in_place and config.bootstrap):
        collect(state, config, env, clock, metrics)
    clock.count(ENV_STEPS, config.horizon * env.num_envs * parallel.world())
    with clock.stage(stages.ADVANTAGE):
        compute_advantages(state, config)
    if config.anneal:
        state.optimizer.rate.fill_(config.learning_rate * (1 - progress))
    with state.gradient.training(parallel.seed(config.seed, DROPOUT_STREAM + state.iterations)):
        losses = learn(state, config, clock, progress)
    state.iterations += 1
    if state.opponents is not None and state.iterations % config.opponent_every == 0:
        state.opponents.add(state.flat.data, state.iterations)
    with clock.stage(stages.LOG):
        means = [torch.stack(parts).mean() for parts in zip(*losses, strict=True)]
        names = [*(Losses._fields if losses else ()), "gradient_norm", "learning_rate"]
        names += [auxiliary.stage for auxiliary in state.auxiliaries]
        means += [state.optimizer.norm, state.optimizer.rate, *(auxiliary.last for auxiliary in state.auxiliaries)]
        numbers = torch.stack(means).tolist()  # the only wait for the device
        metrics.scalars = {f"train/{name}": number for name, number in zip(names, numbers, strict=True)}
        finite.check_losses(metrics.scalars, state)
        if config.weight_analysis and state.iterations % config.weight_analysis == 0:
            with clock.stage(stages.WEIGHTS):
                metrics.scalars |= weights.analyse(state.net)
    ended = parallel.total_of(len(metrics.episodes.get("return", ())), state.flat.device)
    state.episodes += ended
    clock.count(EPISODES, ended)
    return metrics


def learning(state: State, config: Config) -> bool:
    return True  # from the first iteration on


# -- collecting --


@torch.inference_mode()
def collect(state: State, config: Config, env: Any, clock: StageClock, metrics: Metrics) -> None:
    """`horizon` steps of every row into the rollout. Groups of rows that step apart need not be at the same step."""
    state.rollout.begin()
    state.actor.begin(state.iterations)
    env.rewind()
    ready, times = list(range(len(env.groups))), [0] * len(env.groups)
    for group in ready:
        observe(state, env, group, 0)
    stepping = stages.WAIT if env.engine.workers else stages.ENV_STEP
    while ready:
        for group in ready:
            if times[group] < config.horizon:
                with clock.stage(stages.ACT):
                    action = state.actions.to_env(state.actor.act(group, times[group]))
                with clock.stage(stepping):
                    env.send(group, action)
        with clock.stage(stepping):
            ready = env.receive()
        with clock.stage(stages.STORE):
            for group in ready:
                store(state, config, env, group, times[group], metrics)
                times[group] += 1
                observe(state, env, group, times[group])
    with clock.stage(stages.ACT):
        state.actor.finish()
    state.env_steps += config.horizon * env.num_envs * parallel.world()


def observe(state: State, env: Any, group: int, t: int) -> None:
    """Put where a group of rows is into step t of the rollout."""
    state.rollout.place(t, env.groups[group], env.outcome(group)[0], state.obs_moments)


def store(state: State, config: Config, env: Any, group: int, t: int, metrics: Metrics) -> None:
    """Keep what step t of a group of rows led to."""
    rollout, rows = state.rollout, env.groups[group]
    out, finished = env.outcome(group)
    ended = out.terminated | out.truncated if finished else None
    fresh = rollout.store(t, rows, out, ended)
    if state.reward_scale is not None:
        finite.check_reward(env, out.reward, rows)
        state.reward_scale.scale_(rows, rollout.reward[t, rows], rollout.done[t, rows])
    if ended is not None:
        bootstrap(state, config, env, group, t)
        for name, values in env.final_info(out).items():
            if name != "returns":
                metrics.episodes.setdefault(name, []).extend(values[ended].tolist())
            elif state.opponents is not None and (won := state.opponents.scores(values, ended, rows)):
                metrics.episodes.setdefault("score_against_past", []).extend(won)
    rollout.forget(rows, fresh)


def bootstrap(state: State, config: Config, env: Any, group: int, t: int) -> None:
    """Add the value of where episodes were cut off to their last reward."""
    rollout, rows, out = state.rollout, env.groups[group], env.outcome(group)[0]
    cut = np.flatnonzero(out.truncated & ~out.terminated)  # a time limit may fall on the very step that ends the episode
    if not len(cut) or not config.bootstrap:
        return
    device = state.flat.device
    last = torch.from_numpy(finite.checked_last(env, out.final_obs[cut], rows.start + cut)).to(device)
    last = last if state.obs_moments is None else state.obs_moments.normalize(last)
    memory = tuple(part[rows][torch.from_numpy(cut).to(device)] for part in rollout.memory)
    rollout.bootstrap(t, rows, out, cut, config.gamma * state.net(last.to(rollout.obs.dtype), memory)[1])


def compute_advantages(state: State, config: Config) -> None:
    """Advantages of every decision, and which decisions can be learned from."""
    rollout, gamma, lam = state.rollout, config.gamma, config.gae_lambda
    if rollout.turns is None:
        estimate = of_normalized_returns if config.normalize_return else gae
        estimate(rollout.reward, rollout.value, rollout.done, gamma, lam, rollout.advantage)
        return
    seat, rewards, last = (torch.from_numpy(part).to(rollout.value.device) for part in vars(rollout.turns).values())
    advantage, known = gae_of_seats(rewards, rollout.value, rollout.done, seat, last, gamma, lam)
    rollout.advantage.copy_(advantage)
    rollout.valid = known.cpu().numpy()
    if state.opponents is not None:
        rollout.valid &= state.opponents.learner(rollout.turns.seat[:-1])


# -- learning --


def learn(state: State, config: Config, clock: StageClock, progress: float) -> list[Losses]:
    """Some epochs of minibatches. Returns the losses, still on the device, of each epoch's last minibatch."""
    entropy_end = config.entropy if config.entropy_end is None else config.entropy_end
    entropy_weight = config.entropy + progress * (entropy_end - config.entropy)
    losses: list[Losses] = []
    state.optimizer.skip.zero_()
    for auxiliary in state.auxiliaries:
        auxiliary.begin(state.rollout, progress, clock)
    for _ in range(config.epochs):
        batches = minibatches(state.rollout, config, state.generators[0], progress, state.gradient)
        with clock.stage(stages.SAMPLE):
            coming = next(batches, None)
        while (batch := coming) is not None:
            with clock.stage(stages.SAMPLE):
                coming = next(batches, None)
            with clock.stage(stages.UPDATE):
                reported = update(state, clock, batch, entropy_weight, report=coming is None)
            clock.count(UPDATES)
            losses += [reported] if reported is not None else []
        if config.target_kl and losses:
            moved = parallel.mean(losses[-1].kl.clone()) > config.target_kl
            state.optimizer.skip.copy_(torch.maximum(state.optimizer.skip, moved.float()))
            if not state.flat.is_cuda and state.optimizer.skip:  # a GPU is not asked: it skips what is left
                break
    return losses


def update(
    state: State, clock: StageClock, batch: list[Minibatch], entropy_weight: float, report: bool = False
) -> Losses | None:
    """One step of the optimizer on a minibatch, which comes in parts. Returns the losses of the last part, if asked for."""
    gradient, losses = state.flat.grad, None
    assert gradient is not None
    total = torch.zeros_like(gradient) if len(batch) > 1 else None
    for part in batch:
        if part.action.device != gradient.device:  # of a rollout in host memory
            with clock.stage(stages.TRANSFER):
                part = part.to(gradient.device)
        losses = state.gradient.compute(part, entropy_weight, clock, report)
        if total is not None:
            total.add_(gradient, alpha=1 / len(batch))
    with clock.stage(stages.OPTIMIZER):
        if total is not None:
            gradient.copy_(total)
        state.optimizer.step(parallel.mean(gradient))
    state.updates += 1
    return losses


def ppo_loss(actions: Actions, config: Config, batch: Minibatch, output: Tensor, value: Tensor, entropy_weight: Any) -> Losses:
    """The clipped surrogate, the value's error and the entropy, from the network's outputs and values for a minibatch."""

    def mean(parts: Tensor) -> Tensor:
        return parts.mean() if batch.weight is None else (parts * batch.weight).sum() / batch.weight.sum().clamp(min=1)

    log_prob, entropy = actions.evaluate(output, batch.action, batch.mask)
    log_ratio = log_prob - batch.log_prob
    ratio = log_ratio.exp()
    clipped_ratio = ratio.clamp(1 - config.clip, 1 + config.clip)
    policy_loss = -mean(torch.min(batch.advantage * ratio, batch.advantage * clipped_ratio))
    error = (value - batch.return_) ** 2
    if config.value_clip:
        near = batch.value + (value - batch.value).clamp(-config.value_clip, config.value_clip)
        error = torch.max(error, (near - batch.return_) ** 2)
    value_loss, mean_entropy = 0.5 * mean(error), mean(entropy)
    loss = policy_loss + config.value_weight * value_loss - entropy_weight * mean_entropy
    with torch.no_grad():
        kl = mean(ratio - 1 - log_ratio)
        clipped = mean(((ratio - 1).abs() > config.clip).float())
    return Losses(loss, policy_loss, value_loss, mean_entropy, kl, clipped)


# -- evaluation --


def load_policy(
    config: Config, spec: EnvSpec, nets: Mapping[str, PolicyMaker], arrays: dict[str, NDArray[Any]]
) -> PolicyPlayer:
    """The policy of a checkpoint's arrays, without environments around it, on the config's device."""
    device = torch.device(config.device)
    net = make_net(config, spec, nets).to(device)
    net.load_state_dict(tensors_of(arrays, device, "net."))
    moments = Moments(spec.obs_shape, device) if config.normalize_obs else None
    if moments is not None:
        moments.load(tensors_of(arrays, device, "obs_moments."))
    return PolicyPlayer(net, actions_of(spec), moments)


@torch.inference_mode()
def evaluate(state: State, env: Any, seed: int, sampled: bool = False, options: Mapping[str, Any] | None = None) -> Played:
    """Play one greedy (or sampled) episode in each row of `env`; per episode: return, length and the game's own metrics.

    Turn-based games: against fixed bots, with a score for each and a rating.
    """
    generator = torch.Generator(state.flat.device).manual_seed(seed) if sampled else None
    policy = PolicyPlayer(state.net, state.actions, state.obs_moments, generator)
    if env.env_spec.seats > 1:
        player = rating.as_bot(lambda seen, mask: policy(seen, mask)[0], state.flat.device)
        return rating.rate(env, seed, player, rating.bots_of(getattr(env.game, "unwrapped", env.game)), state.bot_ratings)
    return play(env, seed, choose_with(policy, state.actions, state.flat.device), options)


def networks(state: State) -> dict[str, nn.Module]:
    """What `profile --modules` times; a network that is computed by hand calls none of its modules."""
    return dict(state.gradient.modules)


# -- checkpoint --

_COUNTERS = ("env_steps", "updates", "episodes", "iterations")
VARYING = Varying(rows=("generator.", "opponents."), numbered=("generator.",))  # by device, and as it fills; by groups


def parts_of(state: State) -> dict[str, Any]:
    """What keeps tensors of its own: `state` gives them, `load` takes them back."""
    parts = {name: getattr(state, name) for name in ("optimizer", "obs_moments", "reward_scale", "opponents")}
    parts |= {auxiliary.stage: auxiliary for auxiliary in state.auxiliaries}
    return {name: part for name, part in parts.items() if part is not None}


def save_state(state: State, env: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Everything that the rest of the run depends on: arrays and plain numbers."""
    tensors = {f"net.{k}": v for k, v in state.net.state_dict().items()}
    tensors |= {f"memory.{i}": part for i, part in enumerate(state.rollout.memory)}
    for name, part in parts_of(state).items():
        tensors |= {f"{name}.{k}": v for k, v in part.state().items()}
    tensors |= {f"generator.{i}": generator.get_state() for i, generator in enumerate(state.generators)}
    arrays = {name: tensor.detach().cpu().numpy() for name, tensor in tensors.items()}
    arrays |= {f"env.{k}": v for k, v in env.state().items()}
    return arrays, {name: getattr(state, name) for name in _COUNTERS}


def load_state(state: State, env: Any, arrays: dict[str, NDArray[Any]], numbers: dict[str, Any]) -> None:
    """Put a fresh `start` exactly where `save_state` was taken."""
    device = state.flat.device
    for name in _COUNTERS:
        setattr(state, name, numbers[name])
    state.net.load_state_dict(tensors_of(arrays, device, "net."))
    for i, part in enumerate(state.rollout.memory):
        part.copy_(torch.from_numpy(np.array(arrays[f"memory.{i}"])))
    for name, kept in parts_of(state).items():
        kept.load(tensors_of(arrays, device, f"{name}."))
    for i, generator in enumerate(state.generators):
        parallel.restore(generator, arrays.get(f"generator.{i}"), state.env_steps, i + 1)
    env.load_state(part_of(arrays, "env."), parallel.row_seeds([state.env_steps], env.num_envs))
    if not env.restores:  # it began new episodes
        state.rollout.forget(slice(None), np.ones(env.num_envs, bool))
        for auxiliary in state.auxiliaries:
            auxiliary.forget()
        if state.reward_scale is not None:
            state.reward_scale.returns.zero_()
