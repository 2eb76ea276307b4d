"""Signals as a terminal gives them: what runs in the background of a shell, or under nohup, inherits that they are ignored.
And this environment as the active one: scripts run with its Python."""

import os
import signal
import sys

os.environ["VIRTUAL_ENV"] = sys.prefix
os.environ.pop("CONDA_PREFIX", None)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
