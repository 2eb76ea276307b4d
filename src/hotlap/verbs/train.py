"""hotlap train."""

import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.progress import TextColumn

from hotlap.core.errors import UsageError
from hotlap.record.header import Status, Verb
from hotlap.record.run import find
from hotlap.verbs.output import EXIT_CODES, Switch, bar, print_json, say


@dataclass(frozen=True)
class Train:
    """Train a system: progress bar, TensorBoard, checkpoints, evaluation.

    Example: hotlap train snake --preset fast --seed 1

    Example: hotlap train snake --resume latest

    Example: hotlap train CartPole-v1 --algo ppo
    """

    target: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TARGET")]
    """Which system (see `hotlap systems`), or a registered Gymnasium environment."""
    algo: str | None = None
    """With what to train it, ppo or dqn: the first that `hotlap systems` lists if not given; of Gymnasium, ppo."""
    preset: str | None = None
    """A recipe of the system's, such as `seed`: as the original report had it; the first that is listed if not given."""
    resume: str | None = None
    """Go on with an interrupted run: its folder, its id, or "latest"."""
    out: Path | None = None
    """Folder for the record; a new one under .hotlap/runs if not given."""
    checkpoint_seconds: float = 15.0
    """Seconds between checkpoints."""
    checkpoint_every: int = 0
    """Iterations between checkpoints; 0: by time."""
    evaluate_every: int = 0
    """Iterations between evaluations; 0: only at the end."""
    monitor_every: int = 1
    """Iterations between entries in TensorBoard."""
    evaluation_episodes: int | None = None
    """Episodes per evaluation, of each case where a system has several; 200 if not given, or what the system says."""
    evaluation_sampled: Switch = False
    """Draw actions from the policy in evaluations, for environments in which all greedy episodes are the same; PPO only."""
    wandb: str | None = None
    """Log to this project of Weights & Biases too (pip install wandb)."""
    json: Switch = False
    """Print one JSON document."""


def train(args: Any) -> int:
    from hotlap.record.summary import profile_of
    from hotlap.report.show import show_run
    from hotlap.systems import configs
    from hotlap.train.loop import Options
    from hotlap.train.loop import train as run_training

    system = configs.system(args.target, args.algo or (configs.saved_algorithm(args.resume) if args.resume else None))
    config = configs.checked(args.config)
    if args.evaluation_sampled and system.algorithm != "PPO":
        raise UsageError(f"--evaluation-sampled needs a policy to draw from, which {system.algorithm} does not learn")
    if args.wandb and find_spec("wandb") is None:
        raise UsageError("--wandb needs Weights & Biases: pip install wandb")
    episodes = system.evaluation_episodes if args.evaluation_episodes is None else args.evaluation_episodes
    started = time.monotonic()
    resume = find(args.resume, (Verb.TRAIN,)) if args.resume else None
    if resume and not (resume / "checkpoint.safetensors").exists():
        say(f"{resume} has no checkpoint yet: it begins again")
    with bar(TextColumn("{task.fields[shown]}")) as progress:
        task = progress.add_task(f"train {system.name}", total=config.total_steps, shown="")
        last = {"steps": 0.0, "time": time.monotonic()}

        def report(shown: dict[str, float]) -> None:
            if "layout" in shown:
                say(f"environments in {shown['layout']}")
            if "evaluating" in shown:
                progress.update(task, completed=0, total=None, shown=f"evaluating {shown['evaluating']} episodes")
            if "env_steps" not in shown:
                return
            now = time.monotonic()
            rate = (shown["env_steps"] - last["steps"]) / max(now - last["time"], 1e-9) if last["steps"] else 0.0
            last.update(steps=shown["env_steps"], time=now)
            score = shown.get(f"episode/{system.score}")
            text = f"{rate:,.0f} steps/s" + (f", {system.score} {score:.1f}" if score is not None else "")
            progress.update(task, completed=shown["env_steps"], shown=text)

        run = run_training(
            system,
            config,
            out=args.out,
            resume=resume,
            options=Options(
                checkpoint_seconds=args.checkpoint_seconds,
                checkpoint_every=args.checkpoint_every,
                evaluate_every=args.evaluate_every,
                monitor_every=args.monitor_every,
                evaluation_episodes=episodes,
                wandb=args.wandb,
                evaluation_sampled=args.evaluation_sampled,
            ),
            on_progress=report,
        )
    if run is None:  # another process keeps the record
        return 0
    if run.header.status is Status.INTERRUPTED:
        say(f"Stopped. Go on with: hotlap train {system.name} --resume {run.path}")
    profile = profile_of(run)
    seconds = time.monotonic() - started
    if args.json:
        print_json(profile, checkpoint=str(run.path / "checkpoint.safetensors"), seconds=seconds)
    else:
        show_run(run, breakdown=False, only=("Where the time went", "Throughput", "Evaluation", "Evaluation by case"))
        print(
            f"\n{seconds:.0f} s in all: {profile.iteration_seconds:.0f} s in iterations (warm-up included), "
            f"{profile.evaluation_seconds or 0.0:.0f} s evaluating, the rest starting and saving\n"
            f"record: {run.path} (with TensorBoard events)"
        )
    return EXIT_CODES.get(run.header.status, 0)
