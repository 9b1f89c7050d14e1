"""Declarations of functions: result types, and implementations by types."""

import pytest

from tollbar.cel.library.functions import library, overload
from tollbar.cel.library.table import LIBRARY

RESULTS: dict[str, tuple[str, tuple[str, ...], str | None]] = {
    "a plain signature": ("string.charAt(int) -> string", ("string", "int"), "string"),
    "another kind": ("string.charAt(int) -> string", ("string", "double"), None),
    "another number of arguments": ("string.charAt(int) -> string", ("string",), None),
    "an unknown argument": ("string.charAt(int) -> string", ("dyn", "dyn"), "string"),
    "any": ("type(any) -> type", ("list<int>",), "type"),
    "a variable": ("list<A>.first() -> optional_type<A>", ("list<string>",), "optional_type<string>"),
    "a variable for a nested type": ("list<list<A>>.flatten() -> list<A>", ("list<list<map<int>>>",), "list<map<int>>"),
    "a list that is not nested": ("list<list<A>>.flatten() -> list<A>", ("list<int>",), None),
    "a list of unknown elements": ("list<list<A>>.flatten() -> list<A>", ("list<dyn>",), "list<dyn>"),
    "one variable for two": ("f(list<A>, A) -> A", ("list<int>", "int"), "int"),
    "one variable for two that differ": ("f(list<A>, A) -> A", ("list<int>", "string"), None),
    "one variable, not known from the first": ("f(list<A>, A) -> A", ("list<dyn>", "int"), "dyn"),
    "one variable for nested types that differ": ("f(A, A) -> A", ("list<int>", "list<string>"), None),
    "one variable for nested types that may be one": ("f(A, A) -> A", ("list<int>", "list<dyn>"), "list<int>"),
    "a variable that nothing tells": (".optional.none() -> optional_type<A>", (), "optional_type<dyn>"),
    "an API type is a map": ("size(map<A>) -> int", ("ResourceClaim",), "int"),
}


@pytest.mark.parametrize(("signature", "types", "want"), RESULTS.values(), ids=RESULTS)
def test_the_result_type_of_a_call(signature: str, types: tuple[str, ...], want: str | None) -> None:
    assert overload(signature, len).result_for(types) == want


def test_a_name_in_a_namespace_is_a_function() -> None:
    found = overload(".ip.isCanonical(string) -> bool", len)
    assert (found.name, found.method, found.types) == ("ip.isCanonical", False, ("string",))


def test_a_malformed_signature_is_refused() -> None:
    with pytest.raises(ValueError, match="not a signature: size"):
        overload("size list -> int", len)


def test_result_types_of_the_library() -> None:
    found = [
        LIBRARY.result_type("sum", True, ("list<double>",)),
        LIBRARY.result_type("sum", True, ("list<dyn>",)),
        LIBRARY.result_type("sum", True, ("list<string>",)),
        LIBRARY.result_type("nope", True, ("int",)),
    ]
    assert found == ["double", "dyn", None, None]


def test_implementations_for_static_types() -> None:
    table = library([overload("list<int>.f() -> int", min), overload("list<double>.f() -> double", max)])
    found = [table.typed("f", True, (type_,)) for type_ in ("list<double>", "list<dyn>", "string")]
    assert found == [{(list,): max}, {(list,): min}, {}]
