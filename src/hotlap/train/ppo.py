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
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hotlap.core import stages
from hotlap.core.clock import StageClock
from hotlap.core.counts import ENV_STEPS, EPISODES, UPDATES
from hotlap.core.graph_marks import MARKED
from hotlap.envs.spec import EnvSpec
from hotlap.train import backend, finite, on_device, parallel, rating, weights
from hotlap.train.acting import Groups
from hotlap.train.actions import Actions, actions_of
from hotlap.train.adam_gpu import adam_of
from hotlap.train.advantage import gae, gae_of_seats, of_normalized_returns
from hotlap.train.auxiliary import Projections, losses_of
from hotlap.train.batches import batches_of
from hotlap.train.checkpoint import tensors_of
from hotlap.train.configs import PPOConfig
from hotlap.train.configs import validate_ppo as validate
from hotlap.train.evaluation import Played, play
from hotlap.train.fast import keep_memory
from hotlap.train.flat import flatten
from hotlap.train.greedy import PolicyPlayer, choose_with
from hotlap.train.metrics import Metrics
from hotlap.train.minibatch import Losses, Minibatch
from hotlap.train.nets import NETS, Policy, PolicyMaker, named
from hotlap.train.normalize import Moments, RewardScale
from hotlap.train.ppo_state import VARYING as VARYING
from hotlap.train.ppo_state import State as State
from hotlap.train.ppo_state import load_state as load_state
from hotlap.train.ppo_state import save_state as save_state
from hotlap.train.rollout import Rollout

Config = PPOConfig
MOST_MINIBATCHES = 64  # of an epoch that is one CUDA graph; else each of them is
MOST_STEPS = 512  # of a rollout that is one, which holds every operation of each
DROPOUT_STREAM = 1 << 20  # of random numbers: far from those of groups of rows


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
    parallel.use(config.device)
    torch.set_num_threads(config.torch_threads)
    torch.set_float32_matmul_precision("high" if config.precision == "tf32" else "highest")
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
        opponents = backend.past_policies(config, spec, make_net(config, spec, nets).to(device), rows, env.on_device)
        opponents.add(flat.data, 0)
    rollout = Rollout.allocate(config, env, actions, net.initial(rows), device)
    generators = [parallel.generator(device, config.seed, group) for group in range(len(env.groups))]
    groups = Groups(rollout, actions, env.groups, generators)
    auxiliaries = losses_of(config, spec, net, actions, rows, lambda teacher: make_net(teacher, spec, nets))
    loss = partial(ppo_loss, actions, config)
    chosen = backend.choose(config, spec, net, flat, groups, loss, opponents, auxiliaries)
    graphs = backend.graphs_of(config, generators)
    state = State(
        net=net,
        flat=flat,
        actions=actions,
        rollout=rollout,
        actor=chosen.actor,
        gradient=chosen.gradient,
        batches=batches_of(rollout, config, chosen.gradient),
        entropy_weight=torch.zeros((), device=device),
        graphs=graphs,
        optimizer=adam_of(flat)(flat, config.learning_rate, eps=1e-5, clip=config.grad_clip, beta2=config.beta2),
        generators=generators,
        obs_moments=Moments(spec.obs_shape, device) if config.normalize_obs else None,
        reward_scale=RewardScale(rows, config.gamma, device) if config.normalize_reward else None,
        opponents=opponents,
        auxiliaries=auxiliaries,
    )
    minibatches = state.batches.number if graphs.wanted else None
    if minibatches and minibatches <= MOST_MINIBATCHES:
        state.learn_from = partial(learn_from, state)
        whole = graphs.of("epoch", partial(epoch, state, progress=0.0), minibatches // MARKED)
        state.epoch = lambda clock, progress: whole(clock)
    else:
        state.learn_from = graphs.of("update", partial(learn_from, state))
        state.epoch = partial(epoch, state)
    if env.on_device:
        env.engine.take_actions_from(rollout.action)
        state.steps = partial(on_device.steps, state, config, env)
        if config.horizon <= MOST_STEPS:
            state.steps = graphs.of("rollout", state.steps, config.horizon // MARKED)
        else:
            graphs.left_out = f"a rollout of {config.horizon:,} steps is too long for one"
        state.finish = graphs.of("last values", partial(on_device.finish, state))
        state.summarize = graphs.of("summary", partial(on_device.summarize, env, opponents))
    return state


def iterate(state: State, config: Config, env: Any, clock: StageClock) -> Metrics:
    """Collect and learn for one iteration."""
    metrics = Metrics()
    progress = min(1.0, state.env_steps / config.total_steps)  # for the schedules
    with clock.stage(stages.COLLECT), finite.checked_steps(env, config.device, state.rollout.in_place and config.bootstrap):
        (on_device.collect if env.on_device else collect)(state, config, env, clock, metrics)
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
        means = [torch.stack(losses).mean(0)] if losses else []
        others = [state.optimizer.norm, state.optimizer.rate, *(auxiliary.last for auxiliary in state.auxiliaries)]
        names = [*(Losses._fields if losses else ()), "gradient_norm", "learning_rate"]
        names += [auxiliary.stage for auxiliary in state.auxiliaries]
        numbers = torch.cat([*means, torch.stack(others)]).tolist()  # waits for the device
        metrics.scalars = {f"train/{name}": number for name, number in zip(names, numbers, strict=True)}
        finite.check_losses(metrics.scalars, state)
        if config.weight_analysis and state.iterations % config.weight_analysis == 0:
            with clock.stage(stages.WEIGHTS):
                metrics.scalars |= weights.analyse(state.net)
    ended = parallel.total_of(metrics.ended, state.flat.device)
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
    fresh = rollout.store(t, rows, out, None if ended is None else torch.from_numpy(ended))
    if state.reward_scale is not None:
        finite.check_reward(env, out.reward, rows)
        state.reward_scale.scale_(rows, rollout.reward[t, rows], rollout.done[t, rows])
    if ended is not None:
        bootstrap(state, config, env, group, t)
        for name, values in env.final_info(out).items():
            if name != "returns":
                metrics.episodes.setdefault(name, []).extend(values[ended].tolist())
            elif state.opponents is not None:
                won, games = state.opponents.scores(torch.from_numpy(values), torch.from_numpy(ended), rows)
                metrics.add_sum("score_against_past", float(won), int(games))
    if fresh is not None:
        rollout.forget(rows, fresh)


def bootstrap(state: State, config: Config, env: Any, group: int, t: int) -> None:
    """Add the value of where episodes were cut off to their last reward."""
    rollout, rows, out = state.rollout, env.groups[group], env.outcome(group)[0]
    cut = np.flatnonzero(out.truncated & ~out.terminated)  # a time limit may fall on the very step that ends the episode
    if not len(cut) or not config.bootstrap:
        return
    device, chosen = state.flat.device, torch.from_numpy(rows.start + cut)
    last = torch.from_numpy(finite.checked_last(env, out.final_obs[cut], rows.start + cut)).to(device)
    last = last if state.obs_moments is None else state.obs_moments.normalize(last)
    memory = tuple(part[chosen.to(device)] for part in rollout.memory)
    value = config.gamma * state.net(last.to(rollout.obs.dtype), memory)[1]
    seat = torch.from_numpy(out.final_seat[cut]) if rollout.turns is not None else None
    rollout.bootstrap((torch.full_like(chosen, t), chosen), value, seat)


def compute_advantages(state: State, config: Config) -> None:
    """Advantages of every decision, and which decisions can be learned from."""
    rollout, gamma, lam = state.rollout, config.gamma, config.gae_lambda
    if rollout.turns is None:
        estimate = of_normalized_returns if config.normalize_return else gae
        estimate(rollout.reward, rollout.value, rollout.done, gamma, lam, rollout.advantage)
        return
    seat, rewards, last = (part.to(rollout.value.device) for part in vars(rollout.turns).values())
    advantage, known = gae_of_seats(rewards, rollout.value, rollout.done, seat, last, gamma, lam)
    rollout.advantage.copy_(advantage)
    rollout.valid = known
    if state.opponents is not None:
        rollout.valid = known & state.opponents.learner(rollout.turns.seat[:-1]).to(known.device)


# -- learning --


def learn(state: State, config: Config, clock: StageClock, progress: float) -> list[Tensor]:
    """Some epochs of minibatches. Returns the `Losses`, still on the device, of each epoch's last minibatch."""
    entropy_end = config.entropy if config.entropy_end is None else config.entropy_end
    state.entropy_weight.fill_(config.entropy + progress * (entropy_end - config.entropy))
    losses: list[Tensor] = []
    state.optimizer.skip.zero_()
    for auxiliary in state.auxiliaries:
        auxiliary.begin(state.rollout, progress, clock)
    for _ in range(config.epochs):
        reported, updates = state.epoch(clock, progress)
        if reported is None:  # there was nothing to learn from
            break
        state.updates += updates
        clock.count(UPDATES, updates)
        losses.append(torch.stack(reported))
        if config.target_kl:
            moved = parallel.mean(reported.kl.clone()) > config.target_kl
            state.optimizer.skip.copy_(torch.maximum(state.optimizer.skip, moved.float()))
            if not state.flat.is_cuda and state.optimizer.skip:  # a GPU is not asked: it skips what is left
                break
    return losses


def epoch(state: State, clock: StageClock, progress: float) -> tuple[Losses | None, int]:
    """One pass over the rollout: the losses of its last minibatch, and how many there were."""
    draws, reported, updates = state.batches.draw(state.generators[0], progress), None, 0
    with clock.stage(stages.SAMPLE):
        coming = next(draws, None)
    while (drawn := coming) is not None:
        with clock.stage(stages.SAMPLE):
            coming = next(draws, None)
        reported = state.learn_from(clock, *drawn, report=coming is None)
        updates += 1
    return reported, updates


def learn_from(state: State, clock: StageClock, *drawn: Any, report: bool = False) -> Losses | None:
    """One update, from what was drawn for its minibatch."""
    with clock.stage(stages.SAMPLE):
        batch = state.batches.rows(*drawn)
    with clock.stage(stages.UPDATE):
        return update(state, clock, batch, report)


def update(state: State, clock: StageClock, batch: list[Minibatch], report: bool = False) -> Losses | None:
    """One step of the optimizer on a minibatch, which comes in parts. Returns the losses of the last part, if asked for."""
    gradient, losses = state.flat.grad, None
    assert gradient is not None
    total = torch.zeros_like(gradient) if len(batch) > 1 else None
    for part in batch:
        if part.action.device != gradient.device:  # of a rollout in host memory
            with clock.stage(stages.TRANSFER):
                part = part.to(gradient.device)
        losses = state.gradient.compute(part, state.entropy_weight, clock, report)
        if total is not None:
            total.add_(gradient, alpha=1 / len(batch))
    with clock.stage(stages.OPTIMIZER):
        if total is not None:
            gradient.copy_(total)
        state.optimizer.step(parallel.mean(gradient))
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
