"""A hand-made run whose numbers are known, for the tests of reports."""

from hotlap.core.sample import Sample
from hotlap.record.header import Evaluation, FunctionTime, ModuleTime, Passes, Setup, Training, Verb
from hotlap.record.lines import Recorded
from hotlap.record.machine import Machine
from hotlap.record.observed import HotLine, Observed, Usage
from hotlap.record.run import Run
from hotlap.record.summary import profile_of
from hotlap.report.show import report_of

MS = 1_000_000


def sample(i, scale=1):
    """100 ms: collect 40 (act 30), update 50 (loss 20, backward 25), nothing for the rest."""
    exclusive = {"collect": 10, "collect/act": 30, "update": 5, "update/loss": 20, "update/backward": 25}
    inclusive = {"collect": 40, "collect/act": 30, "update": 50, "update/loss": 20, "update/backward": 25}
    return Sample(
        start=i * 100 * MS,
        wall=100 * MS * scale,
        exclusive={path: t * MS * scale for path, t in exclusive.items()},
        inclusive={path: t * MS * scale for path, t in inclusive.items()},
        calls=dict.fromkeys(exclusive, 4),
        counts={"env_steps": 1_000, "updates": 10, "episodes": 2},
        events=[("collect/act", i * 100 * MS + 5, 30 * MS)] if i == 0 else [],
    )


def finish(run, text="x < y </script>", **more):
    """The end of a run, with something in every table."""
    run.finish(
        observed=Observed(
            usage=Usage(peak_rss=6_000_000),
            hot_lines=(HotLine(0.5, "update", "a.py:3", "f", text),),
            user_lines=(HotLine(0.4, "update", "a.py:3", "f", text),),
            sampler_seconds=0.002,
            **more,
        ),
        passes=Passes((ModuleTime("net.0", "Linear", 9, 1, 2, 0.1),), (FunctionTime("a.py:3", "f", 7, 0.1, 0.2),)),
        training=Training(evaluation=Evaluation(5, 1.5, (1.0, 2.0), 3.0, (2.0, 4.0), 9.0)),
    )


def make_run(path):
    """A warm-up iteration, and eight that were measured, with bare ones between them."""
    machine = Machine("a <b>CPU</b> | pipe", 4, 2.0, load=(0.1,) * 3, memory=8_000_000_000, versions={"torch": "1"}, python="3")
    setup = Setup(gpu_timing="host time only", stage_cost=1e-6, targets=("iteration_time<200ms", "memory<1MB"))
    config = {"num_envs": 2, "turbo": True, "device": "cpu"}
    run = Run.create(Verb.PROFILE, "snake", config, machine, out=path, setup=setup)
    run.append(Recorded("warmup", sample(0, scale=9), 5_000_000))
    for i in range(8):
        run.append(Recorded("measured", sample(i), 5_000_000 + i))
        run.append(Recorded("bare", Sample(start=0, wall=99 * MS), 5_000_000))
    finish(run)
    return run


def report(run, breakdown=True):
    return report_of(profile_of(run), run, breakdown)
