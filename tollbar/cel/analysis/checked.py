"""From the text of an expression to a checked tree: parse, fold constants, check types, find what is read.

All engines start here.  Each step relies on the ones before it.
"""

from typing import NamedTuple

from tollbar.cel.analysis.check import check
from tollbar.cel.analysis.constants import fold
from tollbar.cel.analysis.reads import reads_of
from tollbar.cel.core import schema
from tollbar.cel.core.interface import COMPILE, CelError, Env
from tollbar.cel.core.schema import Types
from tollbar.cel.library.table import NAMESPACED
from tollbar.cel.syntax.parser import parse
from tollbar.cel.syntax.tree import Expr


class Checked(NamedTuple):
    """An expression without errors.  `types` go by id() of the nodes of `tree`."""

    source: str
    env: Env
    tree: Expr
    types: Types
    reads: frozenset[str]

    @property
    def result(self) -> str:
        return result_kind(self.env)


def result_kind(env: Env) -> str:
    """The kind that the value of an expression must have, or `dyn`."""
    return schema.kind(env.result)


def checked(source: str, env: Env) -> Checked:
    """Raises CelError of kind COMPILE, and nothing else, for any string."""
    try:
        tree = fold(parse(source, NAMESPACED), (name for name, _ in env.variables))
        types = check(tree, env)
        reads, _ = reads_of(tree, types, env)
        return Checked(source, env, tree, types, reads)
    except RecursionError:
        raise too_deep() from None


def too_deep() -> CelError:
    """The error for an expression that the remaining stack is too small for."""
    return CelError("expression is nested too deeply", 1, 1, COMPILE)
