"""What benchmarks write: results that are kept with others have their own command, date and machine."""

import json
import runpy
from pathlib import Path

PATH = Path(__file__).parents[1] / "benchmarks" / "side_by_side.py"


def test_results_of_several_commands_in_one_file(tmp_path):
    module = runpy.run_path(str(PATH))
    keep = module["keep"]
    keep.__globals__["RESULTS"] = tmp_path
    keep("some", "first command", {"a": {"seconds": 1}, "b": {"seconds": 2}})
    before = json.loads((tmp_path / "some.json").read_text())["results"]
    keep("some", "second command", {"b": {"seconds": 3}})
    document = json.loads((tmp_path / "some.json").read_text())
    assert document.keys() == {"schema", "results"} and document["results"]["a"] == before["a"]
    changed = document["results"]["b"]
    assert (changed["command"], changed["seconds"]) == ("second command", 3) and changed["machine"]["cores"]
