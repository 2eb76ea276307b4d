"""A complete RL set-up, as `hotlap train` and `hotlap profile` run it. Describing one imports neither torch nor gymnasium."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pkgutil import resolve_name
from typing import Any

from hotlap.core.errors import UsageError
from hotlap.record.episodes import EnvSource

TRAINERS = {"ppo": "hotlap.train.ppo", "dqn": "hotlap.train.dqn"}
NET_NAMES = ("auto", "mlp")  # networks that every system has


@dataclass(frozen=True)
class Recipe:
    """A config that is known to work, and what is special about it."""

    config: Any
    note: str
    claims: tuple[str, ...] = ()  # what its document says is faster, as --vary takes it: `investigate` tests each


@dataclass(frozen=True)
class RLSystem:
    """A game, the trainers that fit it with their recipes, and networks of its own.

    `algorithm` is the trainer that was chosen, the first one unless `using` says otherwise.
    """

    name: str
    summary: str
    recipes: Mapping[str, Mapping[str, Recipe]]  # algorithm -> name of a preset -> recipe; the first of each is the default
    game: str = ""  # one of `envs.GAMES`, or "module:Class" of another reference with a kernel
    gym: str = ""  # a Gymnasium or PettingZoo environment, stepped where the kernel is not
    guests: Mapping[str, str] = field(default_factory=dict)  # the config's `engine` -> environments of another package that are
    # the same game, as `make_gym` names them
    options: tuple[str, ...] = ()  # fields of the config that are options of the game
    score: str = "return"  # the metric of an episode that says how well it was played
    nets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # algorithm -> name of a network of its own -> the
    # "module:function" that makes it, like those in `train/nets.py`
    cases: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # what evaluations play, by options of resets
    evaluation_episodes: int = 200  # of each case, if not given
    outside: str = ""  # the "module:function" that adapts a saved policy to the environment as others have it (`load_policy`)
    algorithm: str = ""  # in capitals, as people write it

    def __post_init__(self) -> None:
        unknown = sorted(set(self.recipes) - set(TRAINERS))
        if not self.recipes or unknown:
            raise ValueError(f"{self.name}: recipes are by algorithm, {' or '.join(TRAINERS)}, not {', '.join(unknown)}")
        object.__setattr__(self, "algorithm", self.algorithm or self.algorithms[0].upper())

    def using(self, algorithm: str | None) -> "RLSystem":
        """The same system with another of its trainers."""
        if algorithm is None:
            return self
        if algorithm.lower() not in self.recipes:
            raise UsageError(f"{self.name} is trained with {' or '.join(self.algorithms)}, not with --algo {algorithm}")
        return replace(self, algorithm=algorithm.upper())

    @property
    def algorithms(self) -> tuple[str, ...]:
        return tuple(self.recipes)

    @property
    def presets(self) -> dict[str, Any]:
        """The configs of the chosen trainer, the default first."""
        return {name: recipe.config for name, recipe in self.recipes[self.algorithm.lower()].items()}

    def preset(self, name: str | None = None) -> Any:
        """A preset's config; without a name the default."""
        return self.recipe(name).config

    def recipe(self, name: str | None = None) -> Recipe:
        recipes = self.recipes[self.algorithm.lower()]
        if name is None:
            return next(iter(recipes.values()))
        if name not in recipes:
            raise UsageError(f"{self.name} with {self.algorithm} has no preset {name!r}; its presets: {', '.join(recipes)}")
        return recipes[name]

    @property
    def config_type(self) -> Any:
        return type(self.preset())

    @property
    def kernel(self) -> bool:
        """Whether its environment has a compiled kernel, so that --turbo is possible."""
        return bool(self.game)

    @property
    def net_names(self) -> tuple[str, ...]:
        """What --net can be."""
        return (*NET_NAMES, *self.nets.get(self.algorithm.lower(), {}))

    @cached_property
    def trainer(self) -> Any:
        """The trainer's module. Imports torch."""
        return import_module(TRAINERS[self.algorithm.lower()])

    def net_makers(self) -> dict[str, Any]:
        """What makes each of `net_names`: the trainer's networks and the system's own. Imports torch."""
        from hotlap.train.nets import NETS, QNETS

        algorithm = self.algorithm.lower()
        by_trainer: dict[str, Mapping[str, Any]] = {"ppo": NETS, "dqn": QNETS}
        return {**by_trainer[algorithm], **{name: resolve_name(maker) for name, maker in self.nets.get(algorithm, {}).items()}}

    def start(self, config: Any, env: Any) -> Any:
        """The trainer's state before its first iteration."""
        return self.trainer.start(config, env, self.net_makers())

    # -- environments --

    def source(self, config: Any) -> EnvSource:
        """What environment it is, so that its episodes can be played again."""
        options = {name: getattr(config, name) for name in self.options}
        if guest := self._guest(config):
            return EnvSource("", guest, options)
        return EnvSource(self.game, "", options) if config.turbo or not self.gym else EnvSource("", self.gym, options)

    def _guest(self, config: Any) -> str:
        return self.guests.get(getattr(config, "engine", ""), "")

    def make_env(self, config: Any, num_envs: int | None = None) -> Any:
        """As many environments as the config says, with room for a rollout; or another number, to evaluate."""
        from hotlap.envs.vector import make_gym, make_vec

        if config.turbo and not self.game:
            raise ValueError(f"hotlap has no kernel of {self.name}: leave out --turbo")
        training = num_envs is None
        number = config.num_envs if num_envs is None else num_envs
        source, in_kernel = self.source(config), config.turbo and not self._guest(config)
        groups = getattr(config, "async_factor", 1) if training and not in_kernel else 1
        placement: dict[str, Any] = {
            "seed": config.seed,
            "transport": config.transport,
            "workers": 0 if in_kernel else min(config.workers, number),
            "async_factor": groups,
            "depth": config.iteration_steps + 1 if training else 2,  # what `finite` checks, and a rollout's own arrays
            "patience": config.env_timeout,
        }
        if source.game:
            device = _env_device(config) if training and in_kernel else "cpu"
            return make_vec(
                source.game, number, config.turbo, threads=config.env_threads, device=device, **placement, **source.options
            )
        return make_gym(source.gym, number, **placement, **source.options)

    def make_arena(self, config: Any, episodes: int) -> Any:
        """Environments to evaluate in: on the kernel, whose results are the reference's, where it can be compiled."""
        from hotlap.core import native

        same = bool(self.game) and not self.gym and native.compiler() is not None
        return self.make_env(replace(config, turbo=True) if same else config, episodes)


def _env_device(config: Any) -> str:
    """Where the kernel steps the environments that are trained on."""
    from hotlap.core import nvrtc

    offloaded = getattr(config, "cpu_offload", False)
    if config.env_device == "cpu" or (config.env_device == "auto" and (config.device == "cpu" or offloaded or nvrtc.missing())):
        return "cpu"
    if config.device == "cpu" or offloaded or (reason := nvrtc.missing()):
        what = "the network is on the CPU" if config.device == "cpu" else "cpu-offload" if offloaded else reason
        raise UsageError(f"env-device cuda does not work: {what}")
    return str(config.device)
