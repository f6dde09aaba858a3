"""What decides in a Python source: two texts with the same code behave alike, so results of one hold for the other."""

from __future__ import annotations

import ast
import hashlib


def code_of(text: str) -> str:
    """Without comments, docstrings and layout, which decide nothing."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


def digest_of(text: str) -> str:
    return hashlib.sha256(code_of(text).encode()).hexdigest()[:12]
