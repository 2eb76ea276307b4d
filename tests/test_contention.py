"""Time for which other programs have the core: told apart from the script's own processes, and left out of comparisons."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest

from hotlap.core import contention
from hotlap.core.contention import Contention
from hotlap.experiment.rows import compare_blocks
from hotlap.record.blocks import Block, BlockLine
from hotlap.record.comparison import Verdict

NEIGHBOUR = """
import os, sys
if {orphan} and os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
sys.stdout.close()
while True:
    pass
"""


def test_what_own_processes_took_is_no_neighbours(monkeypatch):
    moments = iter([(1, 0.0, 0.0, 0.0), (1, 10.0, 4.0, 1.0), (1, 20.0, 5.0, 9.0), (2, 30.0, 9.0, 9.0), (2, 40.0, 9.5, 9.0)])
    monkeypatch.setattr(contention, "_now", lambda: contention._Moment(*next(moments)))
    asked = Contention()
    assert asked.share() == pytest.approx(0.3)
    assert asked.share() == 0  # its own processes had the core
    assert asked.share() == 0  # another thread asks now
    assert asked.share() == pytest.approx(0.05)


def test_where_the_system_does_not_tell_nothing_is_left_out(monkeypatch):
    monkeypatch.setattr(contention.Path, "read_text", lambda _: 1 / 0)
    monkeypatch.setattr(contention, "descendants", list)
    with pytest.raises(ZeroDivisionError):
        contention._now()
    monkeypatch.setattr(contention.Path, "read_text", lambda _: "")
    asked = Contention()
    assert asked.share() == 0


def test_a_neighbour_costs_no_truth():
    """A computes, B sleeps as long: a neighbour that takes half of the core hits A alone."""

    def line(number, variant):
        queued = 1 + 0.1 * (number % 3) if variant == "A" else 0.0
        return BlockLine(number // 4, number % 4, variant, Block(1 + queued, counts={"env_steps": 100}, queued=queued))

    lines = [line(number, variant) for number in range(16) for variant in "AB"]
    comparison = compare_blocks(lines, "A", "B", "env_steps", 0.02)
    assert comparison.verdict is Verdict.SAME and comparison.ratio == pytest.approx(1)
    blind = [replace(line, block=replace(line.block, queued=0.0)) for line in lines]
    assert compare_blocks(blind, "A", "B", "env_steps", 0.02).ratio > 2


def test_a_block_cannot_wait_longer_than_it_lasts():
    with pytest.raises(ValueError, match="longer than it lasts"):
        Block(1.0, queued=1.0)


@contextmanager
def busy(orphan, core):
    """A process that computes without end on this core, somebody else's or our own."""
    code = NEIGHBOUR.format(orphan=orphan)
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    pid = int(process.stdout.readline())
    os.sched_setaffinity(pid, {core})
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        process.wait()


@pytest.mark.truth
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
@pytest.mark.parametrize(("orphan", "low", "high"), [(True, 0.3, 0.7), (False, 0.0, 0.1)])
def test_a_neighbour_is_told_from_an_own_process(orphan, low, high):
    cores = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {core := min(cores)})
        with busy(orphan, core):
            asked = Contention()
            until = time.process_time() + 1.0
            while time.process_time() < until:
                pass
            assert low <= asked.share() <= high
    finally:
        os.sched_setaffinity(0, cores)
