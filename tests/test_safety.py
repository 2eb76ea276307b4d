"""What a script does outside of its own files: seen when it happens, found in its code, refused before it is run many times."""

import json
import socket
import subprocess
import sys
import textwrap

import pytest

from hotlap.interventions.code import Code
from hotlap.investigate import safety
from hotlap.investigate.project import modules_of
from hotlap.record.effects import Effect, EffectKind
from hotlap.target.target import Script

TRAIN = """
import argparse
import gymnasium, torch
from project import results

parser = argparse.ArgumentParser()
parser.add_argument("--track", action="store_true")
args = parser.parse_args()
torch.manual_seed(0)
if args.track:
    results.save()
env, net = gymnasium.make("CartPole-v1"), torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
obs, _ = env.reset(seed=0)
while True:
    for _ in range(20):
        with torch.no_grad():
            action = int(net(torch.from_numpy(obs)).argmax())
        obs, _, done, cut, _ = env.step(action)
        if done or cut:
            obs, _ = env.reset()
    net(torch.zeros(16, 4)).sum().backward()
    optimizer.step()
"""
DEEP = """
import os, sqlite3, subprocess, urllib.request

def write():
    sqlite3.connect("results.db").close()
    try:
        urllib.request.urlopen("http://127.0.0.1:PORT/secret?token=abc", data=b"x", timeout=5)
    except OSError:
        pass
    os.remove("old.txt")
    subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "__init__.py").touch()
    (tmp_path / "project" / "results.py").write_text("from . import deep\n\n\ndef save():\n    deep.write()\n")
    (tmp_path / "old.txt").write_text("old")
    (tmp_path / "train.py").write_text(TRAIN)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        (tmp_path / "project" / "deep.py").write_text(DEEP.replace("PORT", str(free.getsockname()[1])))
    return tmp_path


def hotlap(folder, *arguments):
    command = [sys.executable, "-m", "hotlap", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


# -- through the command line --


def test_what_happens_two_imports_deep_is_refused_with_file_and_line(folder):
    result = hotlap(folder, "investigate", "train.py", "--dry-run", "--budget", "3m", "--", "--track")
    assert result.returncode == 0, result.stderr
    text = " ".join(result.stdout.split())
    assert "not run again" in text and "--rerun" in text
    assert "project/deep.py:7 talks to other machines (127.0.0.1:" in text and "abc" not in text
    assert "project/deep.py:5 writes to a database (results.db)" in text
    assert "project/deep.py:10 deletes or moves files (old.txt)" in text
    assert "starts other programs" not in text  # git rev-parse
    assert (folder / "old.txt").exists() and not (folder / "results.db").exists()


@pytest.mark.exact
def test_the_same_behind_a_flag_that_is_off_is_run(folder):
    result = hotlap(folder, "investigate", "train.py", "--dry-run", "--budget", "3m", "--json")
    document = json.loads(result.stdout)
    assert document["unsafe"] == [] and document["contained"] == []


def test_compare_refuses_what_the_code_does(folder):
    (folder / "train.py").write_text(TRAIN.replace("if args.track:\n    results", "results"))
    for verb in (["compare", "train.py", "train.py"], ["sweep", "train.py", "--vary", "OMP_NUM_THREADS=1,2"]):
        result = hotlap(folder, *verb, "--budget", "5s")
        assert result.returncode == 2
        assert "project/deep.py:7 talks to other machines (urllib.request.urlopen)" in result.stderr
        assert "--rerun" in result.stderr.splitlines()[-1]


def test_compare_stops_a_child_before_it_happens(folder):
    result = hotlap(folder, "compare", "train.py --track", "train.py --track", "--budget", "20s", "--no-control")
    assert result.returncode == 1
    text = " ".join(result.stdout.split())
    assert "project/deep.py:7 talks to other machines (127.0.0.1:" in text and "--rerun" in text
    assert (folder / "old.txt").exists()


# -- what really happens --

WATCH = """
import sys
from hotlap.probe import effects, trackers
watcher = effects.install()
trackers.watch(watcher)
exec(compile(open("script.py").read(), "SCRIPT", "exec"))
"""


def watched(tmp_path, script, refuse=(), **environment):
    """(kind, line, what) of what a script did."""
    import os

    from hotlap.probe.effects import variable
    from hotlap.record import effects

    folder = tmp_path / "record"
    folder.mkdir(exist_ok=True)
    (tmp_path / "script.py").write_text(textwrap.dedent(script))
    code = WATCH.replace("SCRIPT", str(tmp_path / "script.py"))
    environment = {**os.environ, **variable(str(folder), tuple(refuse)), **environment}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=False, capture_output=True, timeout=120)
    return [(e.kind, int(e.where.rpartition(":")[2]), e.what) for e in effects.take(folder)]


def test_files_that_were_there_before_and_those_of_the_run(tmp_path):
    (tmp_path / "old").mkdir()
    for name in ("old/a", "old/b", "moved"):
        (tmp_path / name).write_text("x")
    script = """\
    import os, shutil, tempfile
    shutil.rmtree("old")
    os.rename("moved", "elsewhere")
    open("new", "w").close(); os.rename("new", "newer"); os.remove("newer")
    with tempfile.TemporaryDirectory() as name: open(f"{name}/x", "w").close()
    """
    seen = watched(tmp_path, script)
    assert [(kind, line) for kind, line, _ in seen if kind is EffectKind.FILES] == [
        (EffectKind.FILES, 2),
        (EffectKind.FILES, 3),
    ]
    assert (EffectKind.HARMLESS, 4, "new") in seen


def test_libraries_and_workers_are_not_the_users_doing(tmp_path):
    script = """\
    import multiprocessing, os, socket, subprocess, threading, http.server, urllib.request, ctypes.util
    def work(x): return x
    if __name__ == "__main__":
        ctypes.util.find_library("m")
        with multiprocessing.get_context("fork").Pool(1) as pool: pool.map(work, [1])
        server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/").read()
        subprocess.run("git status", shell=True)
        subprocess.run("touch x; ls", shell=True)
        if os.fork() == 0:
            os.system("touch y")
            os._exit(0)
        os.wait()
    """
    seen = watched(tmp_path, script)
    assert {(kind, line) for kind, line, _ in seen} == {
        *((EffectKind.HARMLESS, line) for line in (8, 9)),
        (EffectKind.PROGRAM, 10),
        (EffectKind.PROGRAM, 12),
    }


def test_a_tracker_that_is_off_reports_nothing(tmp_path):
    (tmp_path / "wandb.py").write_text("def init(**_): pass\n")
    script = "import wandb\nwandb.init(project='x')\nwandb.init(mode='disabled')\n"
    assert watched(tmp_path, script) == [
        (EffectKind.TRACKER, 2, "wandb.init"),
        (EffectKind.HARMLESS, 3, "wandb.init"),
    ]
    assert {kind for kind, *_ in watched(tmp_path, script, WANDB_MODE="disabled")} == {EffectKind.HARMLESS}


def test_what_is_refused_does_not_happen(tmp_path):
    script = "import os\ntry:\n    os.system('touch made')\nexcept Exception:\n    pass\nopen('after', 'w')\n"
    watched(tmp_path, script, refuse=[EffectKind.PROGRAM])
    assert not (tmp_path / "made").exists() and not (tmp_path / "after").exists()


# -- in the code --


def reasons(text, **others):
    found = safety.objections({"train.py": Code(text), **{f"{k}.py": Code(v) for k, v in others.items()}}, in_place=True)
    return list(found.reasons)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import sqlite3\nsqlite3.connect('x').execute('insert')\n", "database"),
        ("import shutil\nshutil.rmtree('old')\n", "deletes"),
        ("import requests\nrequests.post('u')\n", "other machines"),
        ("import wandb\nwandb.init()\n", "tracking"),
        ("while True:\n    for i in range(3):\n        break\n    env.step(0)\n", "without end"),
        ("from sqlite3 import connect as c\nc('x')\n", "database"),
        ("import requests\ndef main():\n    requests.post('u')\nif __name__ == '__main__':\n    main()\n", "train.py:3 talks"),
        ("import os\nfor step in range(9):\n    if step % args.every == 0:\n        os.system('x')\n", "programs"),
        ("import os\nclass Env:\n    def __init__(self):\n        os.system('x')\nEnv()\n", "programs"),
    ],
)
def test_scripts_that_should_not_be_run_again(text, why, monkeypatch):
    monkeypatch.delenv("WANDB_MODE", raising=False)
    assert why in reasons(text)[0]


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.manual_seed(0)\nwhile True:\n    env.step(0)\nwith open('log.txt', 'w') as f:\n    f.write('x')\n",
        "import wandb\nif args.track:\n    wandb.init()\n",
        "import wandb\ndef begin(args):\n    if not args.track:\n        return\n    wandb.init()\nbegin(args)\n",
        "import wandb\nwandb.init(mode='online' if args.track else 'disabled')\n",
        "import wandb\nargs.track and wandb.init()\n",
        "import requests\ndef unused():\n    requests.post('u')\n",
        "import requests\ndef upload():\n    requests.post('u')\nif UPLOAD:\n    upload()\n",
        "import os\ntry:\n    train()\nexcept Exception:\n    os.remove('x')\n",
        "import sqlite3, subprocess\nsqlite3.connect(':memory:')\nsubprocess.check_output(['git', 'rev-parse', 'HEAD'])\n",
    ],
)
def test_scripts_that_keep_to_themselves_may_be_run_again(text):
    assert reasons(text) == []


def test_a_helpers_main_block_does_not_run():
    helper = "import requests\nif __name__ == '__main__':\n    requests.post('u')\n"
    assert reasons("import helper\n", helper=helper) == []
    assert reasons(helper)


def test_a_line_that_the_profile_saw_do_no_harm_is_no_reason():
    codes = {"train.py": Code("import subprocess\nsubprocess.run(command)\n")}
    assert safety.objections(codes).reasons == ("train.py:2 starts other programs (subprocess.run)",)
    assert safety.objections(codes, [Effect(EffectKind.HARMLESS, "train.py:2", "git")]).reasons == ()


def test_files_and_databases_in_files_are_contained_in_a_scratch():
    codes = {"train.py": Code("import sqlite3\nsqlite3.connect('x')\n")}
    assert safety.objections(codes) == safety.Objections((), ("train.py:2 writes to a database (sqlite3.connect)",))
    assert safety.objections(codes, in_place=True).reasons == ("train.py:2 writes to a database (sqlite3.connect)",)


def test_the_modules_of_a_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = {
        "train.py": "import torch\nimport envs.maze\nfrom tools import a",
        "envs/__init__.py": "",
        "envs/maze.py": "from . import walls\nfrom .deep.rules import rule",
        "envs/walls.py": "",
        "envs/deep/rules.py": "def rule(): pass",
        "tools.py": "",
        "plugins/late.py": "",
        "unused.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = list(modules_of(Script("train.py"), ["plugins/late.py", "gone.py"]))
    assert found[0] == "train.py" and set(found) == set(files) - {"unused.py"}
    assert next(iter(modules_of(Script("envs.maze", module=True)))) == "envs/maze.py"
