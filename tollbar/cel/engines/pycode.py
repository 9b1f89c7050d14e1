"""Syntax nodes of Python, briefly: what the compiled engine builds its functions of.  Called by `emit` and `loops`."""

import ast
from collections.abc import Mapping
from typing import Final, TypeAlias

Block: TypeAlias = list[ast.stmt]
Scope: TypeAlias = Mapping[str, str]
"""The names that hold an expression's variables, by variable."""


def load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def call(function: str | ast.expr, *arguments: ast.expr) -> ast.Call:
    return ast.Call(load(function) if isinstance(function, str) else function, list(arguments), [])


def method(value: ast.expr, name: str, *arguments: ast.expr) -> ast.Call:
    return call(ast.Attribute(value, name, ast.Load()), *arguments)


def assign(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def item(value: ast.expr, key: ast.expr) -> ast.Subscript:
    return ast.Subscript(value, key, ast.Load())


def compare(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> ast.Compare:
    return ast.Compare(left, [operator], [right])


def not_(value: ast.expr) -> ast.UnaryOp:
    return ast.UnaryOp(ast.Not(), value)


def if_(test: ast.expr, then: Block, otherwise: Block | None = None) -> ast.If:
    return ast.If(test, then or [ast.Pass()], otherwise or [])


FAIL: Final = ast.Raise(load("Failed"))
