"""May a script be run again and again? hotlap runs it many times, and stops it.

What the profile saw it do decides (`probe/effects.py`). A profile is cut short, so what its code does whenever it runs counts
too, unless the profile saw that very line do no harm; in a re-run, what neither saw is stopped before it happens.
"""

import ast
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hotlap.interventions.code import Code
from hotlap.investigate import reachable
from hotlap.probe.effects import REASONS, only_reads
from hotlap.record.effects import CONTAINED, Effect, EffectKind

_CALLS = {
    r"^sqlite3\.(dbapi2\.)?connect$": EffectKind.DATABASE_FILE,
    r"^psycopg\d?\.|^pymongo\.|^MySQLdb\.|^pymysql\.|create_engine$|^redis\.|^asyncpg\.": EffectKind.DATABASE,
    r"^requests\.|^urllib\.request\.url|^urllib3\.|^http\.client\.HTTP|^httpx\.|^aiohttp\.|^boto3\.": EffectKind.NETWORK,
    r"^smtplib\.|^ftplib\.|^paramiko\.|^socket\.create_connection$|^xmlrpc\.client\.": EffectKind.NETWORK,
    r"^shutil\.(rmtree|move)$|^os\.(remove|unlink|rmdir|removedirs|rename|renames)$": EffectKind.FILES,
    r"^subprocess\.(run|Popen|call|check_\w+|getoutput)$": EffectKind.PROGRAM,
    r"^os\.(system|popen|exec\w+|spawn\w+|posix_spawnp?)$|^pexpect\.|^asyncio\.create_subprocess_": EffectKind.PROGRAM,
    r"^serial\.Serial$|^rospy\.|^rclpy\.|^RPi\.GPIO": EffectKind.DEVICE,
    r"^wandb\.init$|^neptune\.init|^comet_ml\.|^mlflow\.start_run$|^clearml\.Task\.init$|^swanlab\.init$": EffectKind.TRACKER,
}
_SEEDS = re.compile(r"manual_seed|np\.random\.seed|random\.seed|default_rng\(|seed=|set_random_seed|seed_everything|\bseed\b")


@dataclass(frozen=True)
class Objections:
    """Why a script should not be run again, a line each; what of it a scratch contains is none by itself."""

    reasons: tuple[str, ...] = ()
    contained: tuple[str, ...] = ()


def objections(
    codes: Mapping[str, Code], seen: Iterable[Effect] = (), in_place: bool = False, endless: bool = True
) -> Objections:
    """What the code does, and what a profile has seen. `endless`: whether training without end and seed is an objection."""
    seen = tuple(seen)
    harmless = {effect.where for effect in seen if effect.kind is EffectKind.HARMLESS}
    effects: dict[tuple[str, EffectKind], Effect] = {}
    effects.update({(effect.where, effect.kind): effect for effect in seen if effect.kind is not EffectKind.HARMLESS})
    for effect in _in_code(codes):
        if effect.where not in harmless:
            effects.setdefault((effect.where, effect.kind), effect)
    contained = () if in_place else CONTAINED
    lines = {effect: _line(effect) for effect in effects.values()}
    reasons = [line for effect, line in lines.items() if effect.kind not in contained]
    if endless and (unseeded := _endless(codes)):
        reasons.append(unseeded)
    within = [line for effect, line in lines.items() if effect.kind in contained]
    return Objections(tuple(dict.fromkeys(reasons)), tuple(dict.fromkeys(within)))


def _line(effect: Effect) -> str:
    return f"{effect.where} {REASONS[effect.kind]}" + (f" ({effect.what})" if effect.what else "")


def _in_code(codes: Mapping[str, Code]) -> list[Effect]:
    """Calls that run whenever the script runs."""
    aliases = {name: _aliases(code) for name, code in codes.items()}
    effects = []
    for name, call in reachable.calls(codes):
        first, dot, rest = ast.unparse(call.func).partition(".")
        called = aliases[name].get(first, first) + dot + rest
        kind = next((kind for pattern, kind in _CALLS.items() if re.search(pattern, called)), None)
        if kind and not _is_harmless(kind, called, call):
            effects.append(Effect(kind, f"{name}:{call.lineno}", called))
    return effects


def _is_harmless(kind: EffectKind, called: str, call: ast.Call) -> bool:
    """What the text itself shows: a database in memory, a program that only reads, a tracker that is off or decides later."""
    first = call.args[0] if call.args else None
    value = first.value if isinstance(first, ast.Constant) else None
    if kind is EffectKind.DATABASE_FILE:
        return value == ":memory:"
    if kind is EffectKind.PROGRAM:
        parts = first.elts if isinstance(first, ast.List | ast.Tuple) else []
        words = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        return only_reads(value.split() if isinstance(value, str) else words)
    if kind is EffectKind.TRACKER:
        mode = next((keyword.value for keyword in call.keywords if keyword.arg == "mode"), None)
        if mode is not None:
            return not isinstance(mode, ast.Constant) or mode.value in ("disabled", "offline", "dryrun")
        is_off = os.environ.get("WANDB_MODE") in ("disabled", "offline", "dryrun") or "WANDB_DISABLED" in os.environ
        return called.startswith("wandb.") and is_off
    return False


def _endless(codes: Mapping[str, Code]) -> str | None:
    """A loop that never ends, in a script that has no seed."""
    loops = [
        f"{name}:{node.lineno}"
        for name, code in codes.items()
        for node in ast.walk(code.tree)
        if isinstance(node, ast.While) and ast.unparse(node.test) in ("True", "1") and not _leaves(node)
    ]
    if not loops or any(_SEEDS.search(code.text) for code in codes.values()):
        return None
    return f"{loops[0]} trains without end and nothing is seeded: no two runs can be compared"


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
