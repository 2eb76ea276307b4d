"""The modules of the user's own project that a script imports, transitively: found in its text, and among what its profile
had imported when it ended."""

import ast
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import hotlap
from hotlap.interventions.code import Code
from hotlap.launch.copying import projects_of
from hotlap.target.target import Script

MOST = 2_000  # files
_INSTALLED = ("-packages", "/lib/python")
_OURS = Path(hotlap.__file__).resolve().parent


def modules_of(script: Script, imported: Iterable[str] = ()) -> dict[str, Code]:
    """The script first, then its modules, by their names below the folder that they are imported from.

    `imported` are such names too: modules that are imported in ways that cannot be read from the text.
    """
    roots = _roots(script)
    first = _find_module(script.path, roots, package=True) if script.module else Path(script.path)
    waiting = [first] if first else []
    waiting += [path for name in imported for root in roots if (path := root / name).is_file()]
    codes: dict[Path, Code] = {}
    while waiting and len(codes) < MOST:
        path = waiting.pop(0).resolve()
        if path in codes or path.is_relative_to(_OURS) or any(part in path.as_posix() for part in _INSTALLED):
            continue
        try:
            codes[path] = Code(path.read_text(errors="replace"))
        except OSError:
            continue
        waiting += _imports(codes[path], path, roots)
    return {_name(path, roots): code for path, code in codes.items()}


def _roots(script: Script) -> list[Path]:
    """Where Python looks for the project's modules: beside the script, PYTHONPATH, and the places of an editable install."""
    folders = [script.folder, *(Path(part) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part)]
    projects = [Path(root) for root in projects_of(None if script.module else Path(script.path), Path.cwd())]
    folders += [folder for root in projects for folder in (root, root / "src")]
    return list(dict.fromkeys(folder.resolve() for folder in folders))


def _imports(code: Code, path: Path, roots: list[Path]) -> Iterator[Path]:
    """The files of the project that a file imports; with a module, its packages are imported."""
    for node in ast.walk(code.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(alias.name, roots)
        elif isinstance(node, ast.ImportFrom):
            places = roots
            if node.level:  # from . import x
                folder = path.parent
                for _ in range(node.level - 1):
                    folder = folder.parent
                places = [folder]
                yield from _init(folder)
            if node.module:
                yield from _files(node.module, places)
            for alias in node.names:
                yield from _files(".".join(filter(None, (node.module, alias.name))), places)


def _files(dotted: str, roots: list[Path]) -> Iterator[Path]:
    for root in roots:
        parts = dotted.split(".")
        found = _find_module(dotted, [root])
        if found is None:
            continue
        yield found
        for length in range(1, len(parts)):
            yield from _init(root.joinpath(*parts[:length]))
        return


def _find_module(dotted: str, roots: list[Path], package: bool = False) -> Path | None:
    """The file of a module; of a package that is run, its `__main__`."""
    for root in roots:
        path = root.joinpath(*dotted.split("."))
        names = [path.with_name(f"{path.name}.py"), *([path / "__main__.py"] if package else []), path / "__init__.py"]
        for candidate in names:
            if candidate.is_file():
                return candidate
    return None


def _init(folder: Path) -> Iterator[Path]:
    if (file := folder / "__init__.py").is_file():
        yield file


def _name(path: Path, roots: list[Path]) -> str:
    """As profiles name it (`shorten`): below the innermost of these folders."""
    inner_first = sorted((*roots, Path.cwd().resolve()), key=lambda root: -len(root.parts))
    below = [path.relative_to(root).as_posix() for root in inner_first if path.is_relative_to(root)]
    return below[0] if below else path.name
