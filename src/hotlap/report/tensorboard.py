"""Rates, memory and the share of each stage, window by window, as TensorBoard scalars."""

from datetime import datetime
from pathlib import Path

from hotlap.core.counts import ENV_STEPS, EPISODES, UPDATES
from hotlap.core.errors import RecordError
from hotlap.report.sections import Report
from hotlap.report.trace import profiled

NANO = 1e-9


def write_events(report: Report, folder: Path) -> None:
    run = profiled(report, "tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    try:
        created = datetime.fromisoformat(run.header.created).timestamp()
    except (ValueError, OverflowError) as error:
        raise RecordError(f"{run.path / 'run.json'} is damaged: 'created' is not a time") from error
    with SummaryWriter(str(folder)) as writer:
        for number, line in enumerate(run.without_bare()):
            sample = line.sample
            scalars = {
                f"rate/{what}_per_s": sample.counts.get(what, 0) / (sample.wall * NANO)
                for what in (ENV_STEPS, UPDATES, EPISODES)
            }
            scalars |= {f"share/{path}": amount / sample.wall for path, amount in sample.inclusive.items()}
            scalars["memory/rss"] = line.rss
            for name, value in scalars.items():
                writer.add_scalar(name, value, number, walltime=created + sample.start * NANO)
