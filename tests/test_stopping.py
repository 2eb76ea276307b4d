"""Which processes hotlap may end when a script is stopped."""

import multiprocessing
import os
import subprocess

import pytest

from hotlap.probe import stopping
from hotlap.record.files import LEARNERS, WORKERS


@pytest.fixture
def process():
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("folder", [WORKERS, LEARNERS])
def test_a_number_that_another_process_has_got_is_left_alone(tmp_path, process, folder):
    written = tmp_path / folder / (f"{process.pid}.jsonl" if folder == WORKERS else f"{process.pid}")
    written.parent.mkdir(parents=True)
    written.touch()
    assert stopping._processes(tmp_path) == {process.pid}
    os.utime(written, (1e9, 1e9))  # by a process that ended long before this one began
    assert stopping._processes(tmp_path) == set()


def test_a_process_of_multiprocessing_that_has_ended_is_left_alone(tmp_path):
    """It stays among the children until somebody joins it, and its number is free once it has been waited for."""
    process = multiprocessing.get_context("spawn").Process(target=int)
    process.start()
    assert process.pid in stopping._processes(tmp_path)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert process.pid not in stopping._processes(tmp_path)
    process.join()
