"""String functions and regular expressions."""

from collections.abc import Callable
from typing import Any

import pytest

X: dict[str, Any] = {"s": "abc", "one": 1, "half": "\ud800", "list": [1, "a"], "letters": ["a", 1]}

TRUE = {
    "startsWith": '"abc".startsWith("ab") && !"abc".startsWith("b") && "abc".startsWith("")',
    "endsWith": '"abc".endsWith("bc") && !"abc".endsWith("b")',
    "contains": '"abc".contains("b") && !"abc".contains("d") && "abc".contains("")',
    "texts are ordered by code point": '"B" < "a" && "\\uffff" < "\\U00010000" && "a" < "ab"',
    "lowerAscii leaves other letters": '"ÀBc".lowerAscii() == "Àbc"',
    "upperAscii leaves other letters": '"àBc".upperAscii() == "àBC"',
    "trim": '" \\t a b\\u00a0\\n".trim() == "a b" && "\\u0085a\\u3000".trim() == "a"',
    "trim leaves what is no white space": '"\\x1fa".trim() == "\\x1fa" && "\\u200ba".trim() == "\\u200ba"',
    "indexOf": '"abcabc".indexOf("c") == 2 && "abc".indexOf("d") == -1 && "abc".indexOf("") == 0',
    "indexOf from": '"abcabc".indexOf("c", 3) == 5 && "abc".indexOf("c", 9) == -1 && "abc".indexOf("", 2) == 2',
    "indexOf nothing beyond the text": '"abc".indexOf("", 9) == 3 && "".indexOf("a") == -1',
    "lastIndexOf": '"abcabc".lastIndexOf("c") == 5 && "abc".lastIndexOf("d") == -1 && "abc".lastIndexOf("") == 3',
    "lastIndexOf up to": '"abcabc".lastIndexOf("c", 4) == 2 && "abc".lastIndexOf("c", 3) == -1',
    "lastIndexOf counts where the match starts": '"abc".lastIndexOf("bc", 1) == 1 && "abc".lastIndexOf("abcd") == -1',
    "lastIndexOf of nothing": '"abc".lastIndexOf("", 1) == 1 && "abc".lastIndexOf("", 9) == 3',
    "substring": '"abcd".substring(1) == "bcd" && "abcd".substring(1, 3) == "bc" && "abcd".substring(4) == ""',
    "positions count characters": '"é😀x".indexOf("x") == 2 && "é😀x".size() == 3 && "é😀x".charAt(1) == "😀"',
    "charAt": '"abc".charAt(0) == "a" && "abc".charAt(3) == ""',
    "replace": '"abab".replace("a", "c") == "cbcb" && "abab".replace("a", "", 1) == "bab"',
    "replace a limited number": '"aaa".replace("a", "b", 0) == "aaa" && "aaa".replace("a", "b", -1) == "bbb"',
    "replace nothing": '"ab".replace("", "-") == "-a-b-" && "ab".replace("", "-", 2) == "-a-b"',
    "split": '"a,b,c".split(",") == ["a", "b", "c"] && "abc".split(",") == ["abc"] && "".split(",") == [""]',
    "split into characters": '"abc".split("") == ["a", "b", "c"] && "".split("") == []',
    "split a limited number": '"a,b,c".split(",", 2) == ["a", "b,c"] && "a,b".split(",", 0) == []',
    "split any number": '"a,b".split(",", -1) == ["a", "b"] && "a,b".split(",", 1) == ["a,b"]',
    "split characters, limited": '"abc".split("", 2) == ["a", "bc"] && "abc".split("", 9) == ["a", "b", "c"]',
    "join": '["a", "b"].join("-") == "a-b" && ["a", "b"].join() == "ab" && [].join("-") == ""',
    "size": 'size("é") == 1 && size(b"é") == 2 && size([1, 2]) == 2 && size({"a": 1}) == 1',
    "size as a method": '"abc".size() == 3 && b"".size() == 0 && [1].size() == 1 && {}.size() == 0',
    "quote": r"""strings.quote("a\"\\\n\tb'é") == '"a\\"\\\\\\n\\tb\'é"'""",
    "matches searches": '"gpu-12".matches("[0-9]+") && !"gpu-12".matches("^[0-9]+$")',
    "matches as a function": 'matches("gpu-12", "^gpu-[0-9]+$")',
    "matches with a computed pattern": '"abc".matches("^" + x.s)',
    "matches a backslash before C": r'"a\\C".matches("a\\\\C")',
    "matches Unicode": '"é".matches("^.$") && "Ä".matches("\\\\pL")',
    "find": '"gpu-12-34".find("[0-9]+") == "12" && "gpu".find("[0-9]+") == ""',
    "find answers the whole match": '"a=b".find("(a)=(b)") == "a=b"',
    "findAll": '"a1b22".findAll("[0-9]+") == ["1", "22"] && "a1b22".findAll("[0-9]+", 1) == ["1"]',
    "findAll of nothing": '"abc".findAll("[0-9]") == [] && "a1".findAll("[0-9]", 0) == []',
    "findAll any number": '"a1b22".findAll("[0-9]+", -5) == ["1", "22"]',
    "findAll of empty matches": '"abc".findAll("") == ["", "", "", ""] && "aéb".findAll("x*", 2) == ["", ""]',
    "an empty match right behind a match is none": '"abc".findAll("b*") == ["", "b", ""]',
}


@pytest.mark.parametrize("source", TRUE.values(), ids=TRUE)
def test_the_expression_is_true(answer: Callable[..., Any], source: str) -> None:
    assert answer(source, x=X) is True


FAILURES = {
    "an index before the text": ('x.s.indexOf("a", -1)', "index out of range"),
    "a last index before the text": ('x.s.lastIndexOf("a", -1)', "index out of range"),
    "a substring before the text": ("x.s.substring(-1)", "index out of range"),
    "a substring beyond the text": ("x.s.substring(4)", "index out of range"),
    "a substring that ends beyond the text": ("x.s.substring(1, 9)", "index out of range"),
    "a substring that ends before it starts": ("x.s.substring(2, 1)", "invalid substring range"),
    "a character before the text": ("x.s.charAt(-1)", "index out of range"),
    "a character beyond the text": ("x.s.charAt(4)", "index out of range"),
    "join of what is not string": ("x.letters.join()", "join() takes a list of strings"),
    "a method of another kind": ("x.one.startsWith('a')", "no such overload: startsWith(int, string)"),
    "an argument of another kind": ("x.s.startsWith(x.one)", "no such overload: startsWith(string, int)"),
    "reverse of a string": ("dyn(x.s).reverse()", "no such overload: reverse(string)"),
    "a pattern that is none": ("x.s.matches(x.s + '(')", "invalid regular expression"),
    "a pattern for half a character": (r"x.s.matches(x.s + '\\C')", "invalid regular expression"),
    "a pattern with look-behind": ("x.s.matches(x.s + '(?<=a)b')", "invalid regular expression"),
    "a text that is half a character": ("x.half.matches('a')", "string is not valid Unicode"),
    "a pattern that is half a character": ("x.s.matches(x.half)", "invalid regular expression"),
}


@pytest.mark.parametrize(("source", "want"), FAILURES.values(), ids=FAILURES)
def test_the_expression_fails_with_this_error(value: Callable[..., Any], source: str, want: str) -> None:
    kind, text = value(source, x=X)
    assert (kind, text.partition(": ")[2]) == ("RUNTIME", want)
