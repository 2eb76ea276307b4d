"""The user's code as rules look at it: which loop, function and class a line belongs to."""

import ast
import re
from collections.abc import Iterator
from functools import cached_property

Loop = ast.For | ast.While | ast.AsyncFor | ast.comprehension
Function = ast.FunctionDef | ast.AsyncFunctionDef
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


def lines_of(text: str, ends: bool = False) -> list[str]:
    """The lines of a text as Python counts them: `str.splitlines` would also split at form feeds and Unicode separators."""
    lines = _LINE.findall(text)
    return lines if ends else [line.rstrip("\r\n") for line in lines]


class Code:
    """One file. A file that cannot be parsed has no loops, functions or classes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = lines_of(text)

    @cached_property
    def tree(self) -> ast.Module:
        try:
            return ast.parse(self.text)
        except (SyntaxError, ValueError):
            return ast.Module([], [])

    def line(self, number: int) -> str:
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""

    def enclosing(self, number: int) -> list[ast.AST]:
        """The nodes that a line lies in, outermost first."""
        nodes: list[ast.AST] = []

        def visit(node: ast.AST) -> None:
            for child in ast.iter_child_nodes(node):
                if getattr(child, "lineno", 0) <= number <= getattr(child, "end_lineno", 0):
                    nodes.append(child)
                    visit(child)

        visit(self.tree)
        return nodes

    def function(self, number: int) -> Function | None:
        return next((node for node in reversed(self.enclosing(number)) if isinstance(node, Function)), None)

    def class_of(self, number: int) -> ast.ClassDef | None:
        return next((node for node in reversed(self.enclosing(number)) if isinstance(node, ast.ClassDef)), None)

    def classes_with(self, method: str) -> list[str]:
        """The sources of classes that have a method of this name."""
        classes = [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]
        return [self.source(c) for c in classes if any(isinstance(f, ast.FunctionDef) and f.name == method for f in c.body)]

    def loops(self, number: int) -> list[ast.stmt | ast.expr]:
        """The loops of its own function that a line is repeated by, outermost first; a loop's first line is not inside it."""
        loops: list[ast.stmt | ast.expr] = []
        for node in self.enclosing(number):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                loops = []
            elif isinstance(node, ast.For | ast.AsyncFor):
                if number > (node.iter.end_lineno or 0) or node.body[0].lineno == number:
                    loops.append(node)
            elif isinstance(node, (ast.While, *_COMPREHENSIONS)):
                loops.append(node)
        return loops

    def statement(self, number: int) -> ast.stmt | None:
        """The innermost statement on a line."""
        return next((node for node in reversed(self.enclosing(number)) if isinstance(node, ast.stmt)), None)

    @cached_property
    def _encoded(self) -> list[bytes]:
        """Lines with their ends; columns of nodes count bytes."""
        return [line.encode() for line in lines_of(self.text, ends=True)]

    def source(self, node: ast.AST) -> str:
        """As `ast.get_source_segment`, which splits the whole text for each node: seconds for a long file."""
        if not isinstance(node, ast.stmt | ast.expr | ast.excepthandler) or node.end_lineno is None:
            return ""
        lines = self._encoded[node.lineno - 1 : node.end_lineno]
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return b"".join(lines).decode()

    def walk(self, kind: type[ast.AST]) -> Iterator[ast.AST]:
        return (node for node in ast.walk(self.tree) if isinstance(node, kind))
