"""The configs of the trainers: plain dataclasses, whose field docstrings are the help of `hotlap train`. No torch here."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Common:
    num_envs: int = 8
    """Environments stepped at once; with torchrun, over all processes."""
    turbo: bool = False
    """Run the compiled kernel of the environment; off: Python, with the same results."""
    env_threads: int = 1
    """Threads that step the environments' kernel."""
    workers: int = -1
    """Processes that step environments in Python; 0: this one, -1: as many as measure fastest. The results are the same."""
    transport: str = "shared"
    """How those processes are told actions and tell results: shared (memory), or pipe (pickles). The results are the same."""
    env_timeout: float = 60.0
    """Seconds without an answer after which a worker is called hung."""
    total_steps: int = 200_000
    """Environment steps to train for."""
    learning_rate: float = 1e-3
    """Learning rate of Adam."""
    gamma: float = 0.99
    """Discount per step."""
    grad_clip: float = 0.5
    """Largest norm of the gradient."""
    hidden: tuple[int, ...] = (64, 64)
    """Units of the hidden layers."""
    net: str = "auto"
    """The network: auto (convolutions for boards and images, else dense layers), mlp (dense layers), or one of the system's."""
    device: str = "cpu"
    """Where to train: cpu, cuda or cuda:0."""
    env_device: str = "auto"
    """Where the kernel steps environments: cpu, cuda, or auto (where training is, if it can be compiled for that)."""
    graphs: bool = True
    """On a GPU, capture rollouts and updates in CUDA graphs; the results are the same."""
    torch_threads: int = 1
    """Threads that torch uses on the CPU; small networks are fastest with one."""
    seed: int = 0
    """Same seed, same machine: same numbers."""


ONES = ("num_envs", "env_threads", "total_steps", "torch_threads")
ZEROS = ("learning_rate", "grad_clip", "seed")


def check(
    config: Any,
    ones: tuple[str, ...] = (),
    zeros: tuple[str, ...] = (),
    fractions: tuple[str, ...] = (),
    words: dict[str, tuple[str, ...]] | None = None,
) -> None:
    """Refuse values that cannot work: below 1, below 0, outside 0 to 1, or none of some words."""
    for name, least in (dict.fromkeys((*ONES, *ones), 1) | dict.fromkeys((*ZEROS, *zeros), 0) | {"workers": -1}).items():
        if not least <= getattr(config, name) < float("inf"):  # false for nan too
            raise ValueError(f"{_flag(name)} must be at least {least}, not {getattr(config, name)}")
    if config.learning_rate > 1e38:  # infinite where it is used, in 32 bits
        raise ValueError(f"learning-rate must be at most 1e38, not {config.learning_rate}")
    for name in ("gamma", *fractions):
        if not 0 <= getattr(config, name) <= 1:
            raise ValueError(f"{_flag(name)} must be from 0 to 1, not {getattr(config, name)}")
    for name, known in ((words or {}) | {"transport": ("shared", "pipe"), "env_device": ("auto", "cpu", "cuda")}).items():
        if getattr(config, name) not in known:
            raise ValueError(f"{_flag(name)} must be one of {', '.join(known)}, not {getattr(config, name)!r}")
    if not config.hidden or min(config.hidden) < 1:
        raise ValueError("hidden must be one or more layers of at least 1 unit")
    if not config.env_timeout > 0:
        raise ValueError(f"env-timeout must be above 0, not {config.env_timeout}")


def _flag(name: str) -> str:
    return name.replace("_", "-")


@dataclass(frozen=True)
class DQNConfig(Common):
    num_envs: int = 256
    turbo: bool = True
    total_steps: int = 1_000_000
    grad_clip: float = 1.0
    hidden: tuple[int, ...] = (128, 128)
    iteration_steps: int = 64
    """Vector steps per iteration, the unit that is measured and logged."""
    updates_per_step: float = 64.0
    """Updates per vector step; below 1, one update every 1/x steps."""
    learning_starts: int = 1_000
    """Environment steps before the first update."""
    batch_size: int = 64
    """Transitions per update."""
    buffer_size: int = 100_000
    """Transitions kept for replay."""
    n_step: int = 1
    """Steps of reward before bootstrapping."""
    double: bool = False
    """Let the online network choose the action that the target network values."""
    dueling: bool = False
    """Split the network's head into value and advantage."""
    target_sync: int = 1_000
    """Updates between copies into the target network."""
    epsilon_start: float = 1.0
    """Share of random actions at the start."""
    epsilon_end: float = 0.01
    """Share of random actions at the end."""
    epsilon_steps: int = 0
    """Environment steps over which epsilon falls linearly; 0: it falls with each episode instead."""
    epsilon_decay: float = 0.995
    """What an episode multiplies epsilon by, if epsilon_steps is 0."""
    priority_alpha: float = 0.0
    """How strongly errors decide what is replayed; 0: uniformly."""
    priority_beta: float = 0.4
    """How strongly importance weights correct for that at the start; reaches 1 at the end."""


@dataclass(frozen=True)
class PPOConfig(Common):
    async_factor: int = 1
    """Groups of workers that step apart from each other: more than 1 do not wait for the slowest."""
    horizon: int = 128
    """Vector steps per iteration."""
    epochs: int = 4
    """Passes over what was collected."""
    batch_size: int = 256
    """Transitions per update; with a memory, whole sequences (see `bptt`). A remainder is left out."""
    accumulate: int = 1
    """Parts in which a minibatch's gradient is computed, one after another, to save memory."""
    sequences: bool = False
    """Make minibatches of whole sequences, as a memory always does."""
    bptt: int = 0
    """Steps of a sequence, through which a memory's gradient flows; 0: the whole horizon."""
    priority_alpha: float = 0.0
    """How strongly advantages decide which sequences are learned from; 0: uniformly."""
    priority_beta: float = 0.2
    """How strongly importance weights correct for that at the start; reaches 1 at the end."""
    anneal: bool = True
    """Anneal the learning rate linearly to 0."""
    beta2: float = 0.999
    """How slowly Adam's mean of squared gradients moves."""
    gae_lambda: float = 0.95
    """Between one-step errors (0) and Monte-Carlo returns (1)."""
    bootstrap: bool = True
    """Add the value of where a time limit cut an episode off; off: returns end with the episode."""
    normalize_return: bool = False
    """Normalize the discounted returns of each iteration to mean 0 and standard deviation 1; needs gae-lambda 1."""
    clip: float = 0.2
    """How far the probability of an action may move, as a ratio."""
    value_clip: float = 0.0
    """How far a value may move; 0: no limit."""
    value_weight: float = 0.5
    """Weight of the value's error in the loss."""
    entropy: float = 0.0
    """Weight of the entropy in the loss at the start."""
    entropy_end: float | None = None
    """Weight of the entropy at the end; as at the start if not given."""
    normalize_advantage: bool = True
    """Normalize each minibatch's advantages to mean 0 and standard deviation 1."""
    normalize_obs: bool = False
    """Normalize observations to mean 0 and standard deviation 1, by running moments."""
    normalize_reward: bool = False
    """Divide rewards by the running standard deviation of the discounted return."""
    target_kl: float = 0.0
    """Stop an iteration's updates once the policy has moved this far; 0: never. Checked after each epoch."""
    activation: str = "tanh"
    """tanh or relu."""
    shared: bool = False
    """One trunk for actor and critic."""
    critic_hidden: tuple[int, ...] = ()
    """Units of the critic's hidden layers; not given: as many as `hidden` says."""
    memory: str = "none"
    """none, lstm or gru (cells of as many units as the last hidden layer), or attention (over past observations)."""
    memory_layers: int = 1
    """Layers of lstm or gru cells."""
    context: int = 8
    """Observations that attention sees, the present one included."""
    contrastive: float = 0.0
    """Weight of a contrastive loss: features tell a state's future from other states of the minibatch (InfoNCE); 0: none."""
    contrastive_steps: int = 8
    """Steps that this future lies ahead at most."""
    teacher: str = ""
    """A run whose policy is the teacher of kickstart: its folder or its id."""
    kickstart: float = 0.0
    """Weight of the KL divergence from the teacher's policy at the start, falling linearly to 0; 0: no teacher."""
    kickstart_steps: int = 0
    """Environment steps over which it falls; 0: all."""
    weight_analysis: int = 0
    """Iterations between analyses of the weights: the singular values of each layer; 0: none."""
    opponents: int = 8
    """Turn-based games: past policies kept as opponents; 0: none."""
    opponent_share: float = 0.25
    """Share of the games in which a past policy plays all seats but one."""
    opponent_every: int = 10
    """Iterations between past policies."""
    compile: bool = False
    """Compile network and loss with torch.compile, instead of computing the gradient by hand."""
    compile_mode: str = "default"
    """What torch.compile aims at: default, or reduce-overhead (CUDA graphs)."""
    precision: str = "float32"
    """float32; tf32: matrix products in TensorFloat-32, on a GPU; bfloat16: mixed precision, by autocast."""
    zero_copy: bool = True
    """Environments where the rollout is write straight into it; off: what they wrote is copied there."""
    cpu_offload: bool = False
    """Keep the rollout in host memory while the network is on a GPU; minibatches are copied there for their update."""

    @property
    def iteration_steps(self) -> int:
        return self.horizon

    @property
    def by_sequences(self) -> bool:
        """Whether minibatches are made of whole sequences."""
        return self.memory != "none" or self.sequences or self.priority_alpha > 0 or self.contrastive > 0

    @property
    def sequence_steps(self) -> int:
        return self.bptt or self.horizon

    @property
    def segments(self) -> int:
        """Sequences, one after another, in a row of the rollout."""
        return self.horizon // self.sequence_steps

    @property
    def has_auxiliary(self) -> bool:
        """Whether there are losses beside PPO's own."""
        return self.contrastive > 0 or self.kickstart > 0


def validate_ppo(config: PPOConfig) -> None:
    """Refuse a config that cannot work."""
    given = () if config.entropy_end is None else ("entropy_end",)
    check(
        config,
        ones=("horizon", "epochs", "batch_size", "accumulate", "async_factor", "context", "opponent_every"),
        zeros=("clip", "value_clip", "value_weight", "entropy", "target_kl", "priority_alpha", "opponents", *given),
        fractions=("gae_lambda", "priority_beta", "opponent_share", "beta2"),
        words={
            "activation": ("tanh", "relu"),
            "memory": ("none", "lstm", "gru", "attention"),
            "precision": ("float32", "tf32", "bfloat16"),
            "compile_mode": ("default", "reduce-overhead"),
        },
    )
    check(
        config,
        ones=("memory_layers", "contrastive_steps"),
        zeros=("bptt", "contrastive", "kickstart", "kickstart_steps", "weight_analysis"),
    )
    if config.async_factor > 1 and (config.normalize_obs or config.normalize_reward):
        raise ValueError(
            "async-factor does not work with normalize-obs and normalize-reward: they depend on which group comes first"
        )
    if config.normalize_return and config.gae_lambda < 1:
        raise ValueError(f"normalize-return needs whole returns: gae-lambda must be 1, not {config.gae_lambda}")
    if config.normalize_return and config.bootstrap:
        raise ValueError("normalize-return needs no-bootstrap: values are of normalized returns, rewards are not")
    if config.teacher == "latest":
        raise ValueError("teacher must be a run's folder or id: the latest run is another one on resume")
    if config.critic_hidden and (config.shared or config.memory != "none"):
        raise ValueError("critic-hidden does not work with shared or a memory: actor and critic then have one trunk")
    if config.critic_hidden and min(config.critic_hidden) < 1:
        raise ValueError("critic-hidden must be layers of at least 1 unit")
    _validate_sequences(config)
    if bool(config.kickstart) != bool(config.teacher):
        raise ValueError("kickstart and teacher go together: how strongly, and towards whom")
    if config.normalize_obs and config.kickstart:
        raise ValueError("kickstart does not work with normalize-obs: the teacher would see other numbers")
    if config.cpu_offload and (config.normalize_obs or config.normalize_reward):
        raise ValueError("cpu-offload does not work with normalize-obs and normalize-reward, which are computed on the device")


def _validate_sequences(config: PPOConfig) -> None:
    if config.memory_layers > 1 and config.memory not in ("lstm", "gru"):
        raise ValueError("memory-layers needs a memory of lstm or gru cells")
    if config.bptt and (not config.by_sequences or config.horizon % config.bptt):
        raise ValueError(f"bptt divides the horizon ({config.horizon}) into sequences, which need a memory or --sequences")
    unit = config.sequence_steps * config.accumulate if config.by_sequences else config.accumulate
    if config.batch_size % unit:
        steps = "bptt" if config.bptt else "horizon"
        what = f"accumulate x {steps}: whole sequences" if config.by_sequences else "accumulate"
        raise ValueError(f"batch-size must be a multiple of {unit} ({what}), not {config.batch_size}")
