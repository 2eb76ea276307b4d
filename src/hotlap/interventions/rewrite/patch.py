"""Changes of a file's syntax tree, collected node by node, and the line edits that they come to.

Rules read a file through `ast` (`Code`). LibCST changes it, because it keeps comments, formatting, tabs and line endings: the
node to change is found by where `ast` has it. What does not fit, or would not compile, comes to no edits at all.
"""

import ast
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from hotlap.interventions.code import Code, lines_of
from hotlap.interventions.edit import Edits, apply, edits_between

Span = tuple[int, int, int, int]  # first line, column; last line, column: in characters
_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.List, cst.Dict, cst.Set, cst.ListComp)


class _Tree:
    """A parsed file and where its nodes are."""

    def __init__(self, text: str) -> None:
        wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        self.module = wrapper.module
        self.expressions: dict[Span, cst.CSTNode] = {}
        self.statements: dict[tuple[int, int], cst.CSTNode] = {}  # lines and blocks, by where they begin
        positions = wrapper.resolve(PositionProvider)
        for node, place in positions.items():
            start, end = place.start, place.end
            if isinstance(node, cst.Tuple | cst.GeneratorExp) and node.lpar:  # ast counts their parentheses
                start, end = positions[node.lpar[-1]].start, positions[node.rpar[0]].end
            if isinstance(node, cst.BaseExpression | cst.ImportAlias):
                self.expressions[start.line, start.column, end.line, end.column] = node
            elif isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                self.statements[start.line, start.column] = node


_tree = lru_cache(maxsize=16)(_Tree)  # many rewrites are tried on the same file


class Patch:
    """Changes of one file. Nothing is changed until `edits` is asked for."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.fits = True
        self._changes: dict[cst.CSTNode, list[Callable[[Any], Any]]] = {}
        self._before: dict[cst.CSTNode, list[str]] = {}
        self._after: dict[cst.CSTNode, list[str]] = {}
        self._comments: dict[cst.CSTNode, list[str]] = {}
        try:
            self._tree: _Tree | None = _tree(code.text)
        except (cst.ParserSyntaxError, UnicodeError, RecursionError):
            self._tree, self.fits = None, False

    def expression(self, part: ast.AST, change: Callable[[Any], Any]) -> None:
        """Change an expression, or a name that is imported."""
        node = None
        if self._tree is not None and not isinstance(part, ast.Starred):
            node = self._tree.expressions.get(self._span(part))
        if node is None or not self._same(part, node):
            self.fits = False
        else:
            self._changes.setdefault(node, []).append(change)

    def statement(self, part: ast.stmt, change: Callable[[Any], Any]) -> None:
        """Change a line (`SimpleStatementLine`) or a block: a loop, a function, a class."""
        if (node := self._statement(part)) is not None:
            self._changes.setdefault(node, []).append(change)

    def before(self, part: ast.stmt, *statements: str, comments: Sequence[str] = ()) -> None:
        """Put statements before one, below the comments that stand over it."""
        if (node := self._statement(part)) is not None:
            self._before.setdefault(node, []).extend(statements)
            self._comments.setdefault(node, []).extend(comments)

    def after(self, part: ast.stmt, *statements: str) -> None:
        """Put statements after one. An empty one is a blank line."""
        if (node := self._statement(part)) is not None:
            self._after.setdefault(node, []).extend(statements)

    def decorate(self, function: ast.stmt, decorator: str) -> None:
        """Add a decorator, nearest to the function."""
        expression = cst.parse_expression(decorator)

        def decorated(node: Any) -> Any:
            new = cst.Decorator(expression, leading_lines=node.lines_after_decorators)
            return node.with_changes(decorators=(*node.decorators, new), lines_after_decorators=())

        self.statement(function, decorated)

    def comments(self, part: ast.stmt) -> list[str]:
        """The comments of a line: above it, in it and behind it."""
        node = self._statement(part)
        return comments_in(node) if node is not None else []

    def edits(self) -> Edits:
        """What it comes to, as edits of lines; none if it does not fit, would lose a comment, or would not compile."""
        if self._tree is None or not self.fits or not (self._changes or self._before or self._after):
            return []
        try:
            changed = self._tree.module.visit(_Transformer(self))
        except (cst.ParserSyntaxError, cst.CSTValidationError):  # what is to be put in is no Python there
            return []
        if Counter(comments_in(self._tree.module)) - Counter(comments_in(changed)):
            return []
        edits = edits_between(self.code.text, changed.code)
        after = apply(self.code.text, edits)
        return edits if lines_of(after) == lines_of(changed.code) and is_python(after) else []

    def _statement(self, part: ast.stmt) -> cst.CSTNode | None:
        """The line that a statement is alone on, or its block."""
        node = self._tree.statements.get(self._span(part)[:2]) if self._tree is not None else None
        if node is None or (isinstance(node, cst.SimpleStatementLine) and len(node.body) > 1):
            self.fits = False
            return None
        return node

    def _span(self, part: Any) -> Span:
        def column(line: int, offset: int) -> int:  # ast counts bytes
            return len(self.code.lines[line - 1].encode()[:offset].decode(errors="replace"))

        end = part.end_lineno or part.lineno
        return part.lineno, column(part.lineno, part.col_offset), end, column(end, part.end_col_offset)

    def _same(self, part: ast.AST, node: cst.CSTNode) -> bool:
        """Whether a node is what was meant: before Python 3.12, `ast` is wrong about places inside f-strings."""
        if isinstance(part, ast.alias):
            return True
        assert self._tree is not None
        try:
            read = ast.parse(f"({self._tree.module.code_for_node(node)}\n)", mode="eval").body
        except SyntaxError:
            return False
        return ast.dump(read).replace("Store()", "Load()") == ast.dump(part).replace("Store()", "Load()")

    def parsed(self, statements: Iterable[str]) -> list[Any]:
        """Statements of this file's indentation and line ending, from text indented by four spaces."""
        assert self._tree is not None
        module, nodes, blank = self._tree.module, [], False
        for text in statements:
            if not text:
                blank = True
                continue
            lines = [line.lstrip(" ") for line in text.split("\n")]
            depths = [(len(line) - len(bare)) // 4 for line, bare in zip(text.split("\n"), lines, strict=True)]
            text = module.default_newline.join(module.default_indent * d + line for d, line in zip(depths, lines, strict=True))
            node = cst.parse_statement(text, module.config_for_parsing)
            nodes.append(node.with_changes(leading_lines=[cst.EmptyLine(indent=False)]) if blank else node)
            blank = False
        return nodes


class _Transformer(cst.CSTTransformer):
    """Makes the changes of a patch, innermost first."""

    def __init__(self, patch: Patch) -> None:
        super().__init__()
        self.patch = patch

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        patch, node = self.patch, updated_node
        for change in patch._changes.get(original_node, ()):
            node = change(node)
        before = patch.parsed(patch._before.get(original_node, ()))
        after = patch.parsed(patch._after.get(original_node, ()))
        if before:
            comments = [cst.EmptyLine(comment=cst.Comment(text)) for text in patch._comments[original_node]]
            before[0] = before[0].with_changes(leading_lines=(*node.leading_lines, *comments))
            node = node.with_changes(leading_lines=())
        return cst.FlattenSentinel([*before, node, *after]) if before or after else node


def is_python(text: str) -> bool:
    """Whether a text compiles, and LibCST reads it as it is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<edited>", "exec", dont_inherit=True)
        return cst.parse_module(text).code == text
    except (SyntaxError, ValueError, RecursionError, cst.ParserSyntaxError):
        return False


def comments_in(node: cst.CSTNode) -> list[str]:
    comments: list[str] = []

    class Collector(cst.CSTVisitor):
        def visit_Comment(self, node: cst.Comment) -> None:
            comments.append(node.value)

    node.visit(Collector())
    return comments


def imports(code: Code, name: str, alias: str | None = None) -> bool:
    """Whether a file imports a module at its top, under its own name or an alias."""
    return any(
        isinstance(node, ast.Import) and any(a.name == name and a.asname == alias for a in node.names)
        for node in code.tree.body
    )


def add_import(patch: Patch, module: str) -> None:
    """Import a module at the top of a file, above its first import."""
    if imports(patch.code, module):
        return
    tops = [node for node in patch.code.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    tops = [node for node in tops if getattr(node, "module", "") != "__future__"]
    if tops:
        patch.before(tops[0], f"import {module}")
    else:
        patch.fits = False


# -- building blocks of new expressions --


def atom(node: Any) -> Any:
    """An expression that an attribute or an operator can follow: in parentheses, unless it needs none."""
    if node.lpar or isinstance(node, _ATOMS):
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def called(function: str, *arguments: cst.BaseExpression) -> cst.Call:
    return cst.Call(cst.parse_expression(function), [cst.Arg(argument) for argument in arguments])


def method(node: Any, name: str) -> cst.Call:
    """`node.name()`"""
    return cst.Call(cst.Attribute(atom(node), cst.Name(name)))


def text(expression: str) -> Callable[[Any], Any]:
    """A change to an expression that is written out."""
    return lambda _: cst.parse_expression(expression)
