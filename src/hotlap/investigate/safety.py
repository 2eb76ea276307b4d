"""May a script be run again and again? Looked up in its code before any experiment: hotlap runs it many times, and stops it."""

import ast
import re
from collections.abc import Mapping

from hotlap.interventions.code import Code

_ELSEWHERE = {
    r"^sqlite3\.connect|^psycopg\d?\.|^pymongo\.|^MySQLdb\.|create_engine$|^redis\.": "writes to a database",
    r"^requests\.(post|put|delete|patch)|^urllib\.request\.urlopen|^httpx\.|^boto3\.|^smtplib\.": "talks to other machines",
    r"^shutil\.(rmtree|move)|^os\.(remove|unlink|rmdir|removedirs|rename)$|\.unlink$|\.rmdir$": "deletes or moves files",
    r"^subprocess\.|^os\.system$|^os\.popen$": "starts other programs",
    r"^serial\.Serial|^rospy\.|^rclpy\.": "drives a machine",
    r"^wandb\.init$|^neptune\.init|^comet_ml\.|^mlflow\.start_run": "reports to a tracking service",
}
_SEEDS = re.compile(r"manual_seed|np\.random\.seed|random\.seed|default_rng\(|seed=|set_random_seed|seed_everything|\bseed\b")


def reasons(codes: Mapping[str, Code]) -> list[str]:
    """Why a script should not be run again without asking; empty if it may be."""
    objections: list[str] = []
    for name, code in codes.items():
        aliases = _aliases(code)
        for node in ast.walk(code.tree):
            if isinstance(node, ast.Call):
                first, dot, rest = ast.unparse(node.func).partition(".")
                called = aliases.get(first, first) + dot + rest
                objections += [
                    f"{name}:{node.lineno} {why} ({called})"
                    for pattern, why in _ELSEWHERE.items()
                    if re.search(pattern, called)
                ]
    endless = [
        f"{name}:{node.lineno}"
        for name, code in codes.items()
        for node in ast.walk(code.tree)
        if isinstance(node, ast.While) and ast.unparse(node.test) in ("True", "1") and not _leaves(node)
    ]
    if endless and not any(_SEEDS.search(code.text) for code in codes.values()):
        objections.append(f"{endless[0]} trains without end and nothing is seeded: no two runs can be compared")
    return list(dict.fromkeys(objections))


def _aliases(code: Code) -> dict[str, str]:
    """What names stand for: `from sqlite3 import connect`, `import shutil as sh`."""
    aliases: dict[str, str] = {}
    for node in ast.walk(code.tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            aliases |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            aliases |= {alias.asname: alias.name for alias in node.names if alias.asname}
    return aliases


def _leaves(loop: ast.While) -> bool:
    """Whether the loop itself can be left; a break of a loop inside it leaves only that."""
    waiting: list[ast.AST] = list(loop.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Break | ast.Return | ast.Raise):
            return True
        if not isinstance(node, ast.For | ast.While | ast.FunctionDef | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)
    return False
