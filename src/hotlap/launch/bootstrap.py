"""Starts the child in any Python: `python .../hotlap/launch/bootstrap.py SPEC`.

The user's environment need not know hotlap. The package is loaded from where this file lies, and nothing that is installed
beside it becomes importable: `import numpy` finds the user's. The path is left as it is without a script's folder.
"""

import sys

if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]  # this folder: its files would hide modules of the same names

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

spec = PathFinder.find_spec("hotlap", [str(Path(__file__).resolve().parents[2])])
assert spec is not None and spec.loader is not None
sys.modules["hotlap"] = module_from_spec(spec)
spec.loader.exec_module(sys.modules["hotlap"])

from hotlap.launch.child import main  # noqa: E402

main()
