"""The pages: every link leads somewhere, every path that they name is there, and every page is in an index."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "manifests", "tests/contract")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(`+)(?!`).+?\1")
LINK = re.compile(r"\]\(([^()\s]+)\)")
PATH = re.compile(r"`((?:benchmarks|controllers|docs|image|manifests|scripts|tests|tollbar|webhooks)/[\w./-]+)`")
"""One that is written from the root of the repository, in code."""
INDEX = "README.md"


@cache
def prose(page: Path) -> str:
    """Without blocks of code."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    return [link for link in LINK.findall(CODE.sub("", prose(page))) if not urlsplit(link).scheme]


def target(page: Path, link: str) -> Path:
    path = urlsplit(link).path
    return (page.parent / path).resolve() if path else page


@cache
def anchors(page: Path) -> frozenset[str]:
    """The names of the headings, as GitHub makes them."""
    found: list[str] = []
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).replace(" ", "-")
        found.append(f"{name}-{found.count(name)}" if name in found else name)
    return frozenset(found)


def is_dead(page: Path, link: str) -> bool:
    found, anchor = target(page, link), urlsplit(link).fragment
    return not found.exists() or (bool(anchor) and anchor not in anchors(found))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert [link for link in links(page) if is_dead(page, link)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_path_that_a_page_names_is_there(page: Path) -> None:
    assert [path for path in PATH.findall(prose(page)) if not (ROOT / path).exists()] == []


def test_every_page_of_the_documentation_is_in_an_index() -> None:
    """From the documentation's own index over those of folders."""
    found = {ROOT / "docs" / INDEX}
    left = [*found]
    while left:
        page = left.pop()
        new = {each for link in links(page) if (each := target(page, link)).suffix == ".md"} - found
        found |= new
        left += [each for each in new if each.name == INDEX]
    assert [page for page in PAGES if page.is_relative_to(ROOT / "docs") and page not in found] == []
