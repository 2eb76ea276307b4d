"""The command line: a table of contents. Each verb is a file in `verbs/`.

With `--json` a verb prints one JSON document on stdout; progress and everything else goes to stderr. Exit codes: 0 done,
1 a gate or target failed, 2 wrong usage or input, 130 interrupted.
"""

import io
import os
import sys
from collections.abc import Callable
from typing import Any

from hotlap.core.errors import HotlapError, UsageError
from hotlap.core.extras import missing_extra
from hotlap.core.text import one_line, printable
from hotlap.core.version import __version__
from hotlap.systems.configs import nearest
from hotlap.verbs import compare, diagnose, flags, gate, investigate, play, profile, replay, report, sweep, systems, train
from hotlap.verbs.output import err, say

VERBS: dict[str, tuple[type, Callable[[Any], int]]] = {
    "systems": (systems.Systems, systems.systems),
    "train": (train.Train, train.train),
    "profile": (profile.Profile, profile.profile),
    "compare": (compare.Compare, compare.compare),
    "sweep": (sweep.Sweep, sweep.sweep),
    "gate": (gate.Gate, gate.gate),
    "diagnose": (diagnose.Diagnose, diagnose.diagnose),
    "investigate": (investigate.Investigate, investigate.investigate),
    "report": (report.Report, report.report),
    "replay": (replay.Replay, replay.replay),
    "play": (play.Play, play.play),
}


def main() -> None:
    """Entry point of the `hotlap` command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # LANG=C: a question mark is better than no report
            stream.reconfigure(errors="replace")
    try:
        code = _run(sys.argv[1:])
    except KeyboardInterrupt:
        say("hotlap: interrupted; what was recorded is kept")
        code = 130
    except BrokenPipeError:  # the reader of our output went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except ModuleNotFoundError as error:
        if (message := missing_extra(error)) is None:
            raise
        say(f"hotlap: {message}")
        code = 2
    except (HotlapError, ValueError) as error:
        if os.environ.get("HOTLAP_DEBUG"):
            raise
        if details := getattr(error, "details", ""):
            err.print(printable(details.rstrip()), markup=False, highlight=False, soft_wrap=True)
        say(f"hotlap: {one_line(str(error), most=2_000)}")
        code = getattr(error, "exit_code", 2)
    sys.exit(code)


def _run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        return _help()
    if argv[0] == "--version":
        print(f"hotlap {__version__}")
        return 0
    verb, rest = argv[0], argv[1:]
    if verb not in VERBS:
        raise UsageError(f"unknown verb {verb!r}{nearest(verb, VERBS)}; verbs: {', '.join(VERBS)}")
    kind, function = VERBS[verb]
    if verb == "profile" and flags.is_script(rest):
        return profile.profile_script(rest)
    if verb == "investigate":
        return investigate.investigate(rest)
    if verb in ("train", "profile"):
        kind = flags.with_config(kind, rest)
    return function(flags.parse(kind, verb, flags.protected(rest)))


def _help() -> int:
    print("hotlap: makes reinforcement-learning training fast, and proves it\n")
    for verb, (kind, _) in VERBS.items():
        print(f"  hotlap {verb:<11} {(kind.__doc__ or '').splitlines()[0]}")
    print("\nExample: hotlap profile snake --iterations 10\nhotlap VERB --help lists a verb's flags.")
    return 0
