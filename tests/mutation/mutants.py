"""Small changes of a module's decision code, each of which some test should notice.

    harness/checker/loss.py:47  `log_end is not null and offset >= log_end` -> `... offset > log_end`      comparison in SQL

A mutant is one replaced piece of text, so that line numbers stay and a survivor can be read as a diff. What decides is
changed: comparisons, arithmetic, conditions, constants, extremes (min and max, first and last), statements left out;
in modules that judge with Spark also the SQL inside strings and the kind of a join. What only tells is not: docstrings,
messages, sentences, times and values of a finding, annotations, decorators.

Why not mutmut or cosmic-ray: both leave strings alone or replace them by nonsense, while half of the judge is SQL in
strings; both leave module-level code alone or start a process (for us: a JVM) per mutant.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple


@dataclass(frozen=True, kw_only=True)
class Mutant:
    module: str  # path from the checkout's root
    line: int
    kind: str
    start: int  # bytes of the source that are replaced
    end: int
    old: str
    new: str
    name: str  # the same as long as the lines around it are

    def applied(self, source: str) -> str:
        text = source.encode()
        return (text[: self.start] + self.new.encode() + text[self.end :]).decode()


class _Piece(NamedTuple):
    node: Any  # has a place in the source
    new: str
    kind: str


_COMPARISONS: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.LtE(), ast.LtE: ast.Lt(), ast.Gt: ast.GtE(), ast.GtE: ast.Gt(), ast.Eq: ast.NotEq(), ast.NotEq: ast.Eq(),
    ast.Is: ast.IsNot(), ast.IsNot: ast.Is(), ast.In: ast.NotIn(), ast.NotIn: ast.In(),
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(), ast.Sub: ast.Add(), ast.Mult: ast.Add(), ast.FloorDiv: ast.Mult(), ast.Mod: ast.Mult(),
    ast.BitAnd: ast.BitOr(), ast.BitOr: ast.BitAnd(), ast.LShift: ast.RShift(), ast.RShift: ast.LShift(),
}  # fmt: skip
_PAIRS = (
    ("min", "max"), ("any", "all"), ("first", "last"), ("least", "greatest"), ("minimum", "maximum"),
    ("argmin", "argmax"), ("min_by", "max_by"), ("lag", "lead"), ("asc", "desc"),
)  # fmt: skip
_EXTREMES = {one: other for pair in _PAIRS for one, other in (pair, pair[::-1])}
_WORDS = {"left": "right", "right": "left", "left_anti": "left_semi", "left_semi": "left_anti"}  # sides, and joins
_SQL = (  # the first that matches a place decides
    (re.compile(r"<>"), "=", "comparison in SQL"),
    (re.compile(r"<="), "<", "comparison in SQL"),
    (re.compile(r">="), ">", "comparison in SQL"),
    (re.compile(r"(?<= )=(?= )"), "<>", "comparison in SQL"),
    (re.compile(r"(?<= )<(?= )"), "<=", "comparison in SQL"),
    (re.compile(r"(?<= )>(?= )"), ">=", "comparison in SQL"),
    (re.compile(r"\bis not null\b"), "is null", "null in SQL"),
    (re.compile(r"\bis null\b"), "is not null", "null in SQL"),
    (re.compile(r"\bnot "), "", "negation in SQL"),
    (re.compile(r"\band\b"), "or", "connective in SQL"),
    (re.compile(r"\bor\b"), "and", "connective in SQL"),
    (re.compile(r"(?<= )\+(?= )"), "-", "arithmetic in SQL"),
    (re.compile(r"(?<= )-(?= )"), "+", "arithmetic in SQL"),
    (re.compile(r"\bmin(?=\()"), "max", "extreme in SQL"),
    (re.compile(r"\bmax(?=\()"), "min", "extreme in SQL"),
    (re.compile(r"\bleast(?=\()"), "greatest", "extreme in SQL"),
    (re.compile(r"\bgreatest(?=\()"), "least", "extreme in SQL"),
    (re.compile(r"(?<![\w'.])\d+(?![\w'.])"), "+1", "constant in SQL"),
)
_KINDS_OF_SQL = tuple(dict.fromkeys(kind for _, _, kind in _SQL))
_IS_SQL = re.compile(r" (=|<>|<=|>=|<|>|\+|-|as|in) |\bis (not )?null\b|\w\(|^not \w")
_TELLS = {"text", "finding", "plain_finding", "Misfit", "Found", "bad_history", "lit", "Assumption", "alias"}
_DECIDES = {"severity", "because", "expected_because", "type"}  # arguments of what tells that decide all the same


def mutants_of(module: str, source: str, *, sql: bool) -> list[Mutant]:
    """All of a module, in the order of the text. `sql`: strings hold SQL there."""
    tree = ast.parse(source)
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: list[Mutant] = []
    text = source.encode()
    seen: dict[str, int] = {}
    for node, new, kind in _walk(tree, sql):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        for first, last, replacement in _spots(text, start, end, new, kind):
            line = text.count(b"\n", 0, first) + 1
            about = text[starts[line - 1] : starts[line]].strip() + f"|{first - starts[line - 1]}|{kind}".encode()
            key = about.decode() + "|" + replacement
            seen[key] = seen.get(key, 0) + 1
            name = hashlib.sha256(f"{module}|{key}|{seen[key]}".encode()).hexdigest()[:12]
            found.append(
                Mutant(
                    module=module,
                    line=line,
                    kind=kind,
                    start=first,
                    end=last,
                    old=text[first:last].decode(),
                    new=replacement,
                    name=name,
                )
            )
    return sorted(found, key=lambda one: (one.start, one.end, one.new))


def changes_something(mutant: Mutant, source: str) -> bool:
    """It is Python, and other Python than the source."""
    try:
        changed = ast.parse(mutant.applied(source))
    except SyntaxError:
        return False
    return ast.dump(changed) != _dump(source)


@lru_cache(maxsize=64)
def _dump(source: str) -> str:
    return ast.dump(ast.parse(source))


def _spots(text: bytes, start: int, end: int, new: str, kind: str) -> Iterator[tuple[int, int, str]]:
    """A node's text as a whole, or (SQL) what is changed inside of it."""
    if new is not _SQL_INSIDE:
        yield start, end, new
        return
    inside = text[start:end].decode()
    for pattern, replacement, of in _SQL:
        if of != kind:
            continue
        for match in pattern.finditer(inside):
            if of == "constant in SQL":
                changed = str(int(match.group()) + 1)
            elif of == "negation in SQL" and inside[: match.start()].endswith("is "):
                continue
            else:
                changed = replacement
            before = len(inside[: match.start()].encode())
            yield start + before, start + before + len(match.group().encode()), changed


_SQL_INSIDE = "\0sql"


def _walk(node: ast.AST, sql: bool) -> Iterator[_Piece]:
    yield from _changes(node, sql)
    for child in _deciding(node):
        yield from _walk(child, sql)


def _deciding(node: ast.AST) -> Iterator[ast.AST]:
    """The children that can change a decision."""
    match node:
        case ast.Raise() | ast.Import() | ast.ImportFrom() | ast.Assert():
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield from _without_docstring(node.body)
            return
        case ast.Module():
            yield from _without_docstring(node.body)
            return
        case ast.JoinedStr():
            return
        case ast.AnnAssign():
            if node.value is not None:
                yield node.value
            return
        case ast.Call(func=func, args=args, keywords=keywords) if _name(func) in _TELLS:
            yield from (word.value for word in keywords if word.arg in _DECIDES)
            yield from args[:1] if _name(func) == "alias" else ()
            if isinstance(func, ast.Attribute):
                yield func.value
            return
    yield from ast.iter_child_nodes(node)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    return [
        statement
        for statement in body
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
    ]


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _changes(node: ast.AST, sql: bool) -> Iterator[_Piece]:
    match node:
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                changed = [*ops[:place], _COMPARISONS[type(op)], *ops[place + 1 :]]
                yield _Piece(node, _code(ast.Compare(node.left, changed, node.comparators)), "comparison")
        case ast.BinOp(op=op) if type(op) in _ARITHMETIC and not _is_text(node):
            yield _Piece(node, _code(ast.BinOp(node.left, _ARITHMETIC[type(op)], node.right)), "arithmetic")
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield _Piece(node, _code(ast.BoolOp(other, values)), "connective")
            for place in range(len(values)):
                rest = values[:place] + values[place + 1 :]
                shorter = rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
                yield _Piece(node, _code(shorter), "condition left out")
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub(), operand=operand):
            yield _Piece(node, _code(operand), "negation")
        case ast.Constant(value=bool() as value):
            yield _Piece(node, str(not value), "constant")
        case ast.Constant(value=int() as value):
            yield _Piece(node, str(value + 1), "constant")
        case ast.Constant(value=str() as value) if value in _WORDS:
            yield _Piece(node, repr(_WORDS[value]), "side")
        case ast.Constant(value=str() as value) if sql and _IS_SQL.search(value):
            yield from (_Piece(node, _SQL_INSIDE, kind) for kind in _KINDS_OF_SQL)
        case ast.JoinedStr() if sql and _IS_SQL.search(ast.unparse(node)):
            yield from (_Piece(node, _SQL_INSIDE, kind) for kind in _KINDS_OF_SQL)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield _Piece(test, f"(not ({ast.unparse(test)}))", "condition")
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in _EXTREMES:
            yield _Piece(node, _renamed(node, _EXTREMES[name]), "extreme")
        case (
            ast.AugAssign() | ast.Continue() | ast.Break() | ast.Expr(value=ast.Yield() | ast.YieldFrom() | ast.Call())
        ):
            other_way = {"Continue": "break", "Break": "continue"}.get(type(node).__name__, "pass")
            yield _Piece(node, other_way, "statement")


def _code(expression: ast.expr) -> str:
    return f"({ast.unparse(expression)})"


def _renamed(node: ast.Name | ast.Attribute, name: str) -> str:
    return name if isinstance(node, ast.Name) else f"{ast.unparse(node.value)}.{name}"


def _is_text(node: ast.BinOp) -> bool:
    """Strings and tuples are put together with +, sets of flags and types with |."""
    return any(
        isinstance(side, (ast.JoinedStr, ast.Tuple, ast.List))
        or (isinstance(side, ast.Constant) and not isinstance(side.value, int))
        or (isinstance(side, ast.BinOp) and _is_text(side))
        for side in (node.left, node.right)
    )
