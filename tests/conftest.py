"""Signals as a terminal gives them: what runs in the background of a shell, or under nohup, inherits that they are ignored.
And this environment as the active one: scripts run with its Python. And examples that depend on no clock and on no day."""

import os
import signal
import sys
from contextlib import suppress

with suppress(ImportError):  # tests/frameworks runs where there is no hypothesis
    from hypothesis import HealthCheck, settings

    settings.register_profile("hotlap", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("hotlap")

os.environ["VIRTUAL_ENV"] = sys.prefix
os.environ.pop("CONDA_PREFIX", None)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
