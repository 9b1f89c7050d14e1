"""The pages of `tollbar simulate --html` and `tollbar explain pod --html` in a browser.

It asks nobody for anything, says nothing on the console, fits into every window, and can be used with a keyboard.

The pages are those of the pictures in the docs (docs/pictures/report), with a tenant's worst names added.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from integration import reportpages
from integration.browser import Chromium, NoBrowser, chromium
from planes.parameters import unavailable
from playwright.sync_api import Browser, Page

from tollbar.cli.page import rendering, values
from tollbar.cli.page.matrix import Row, matrix
from tollbar.cli.page.values import Bar, PodRow, Timeline, Tolerations
from tollbar.cli.simulation.report import State

LONG: Final = "a-name-as-long-as-names-may-be-" + "x" * 200
HOSTILE: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": LONG, "namespace": "web"},
    "spec": {
        "schedulerName": '<img src="http://127.0.0.1:9/x" onerror="alert(1)">\u202eevil',
        "containers": [{"name": "main", "image": "x"}],
    },
}
WIDTHS: Final = {"1280 px": (1280, 800), "a phone": (360, 740)}
SCHEMES: Final = ("light", "dark")
PAGES: Final = ("report", "why")


@pytest.fixture(scope="module")
def installed() -> Chromium:
    try:
        return chromium()
    except NoBrowser as error:
        unavailable(f"no browser: {error}")


@pytest.fixture(scope="module")
def browser(installed: Chromium, report: Path, why: Path) -> Iterator[Browser]:
    """After the pages: while a browser runs, so does an event loop on this thread."""
    with installed.running() as running:
        yield running


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    hostile, target = folder / "hostile.yaml", folder / "report.html"
    hostile.write_text(yaml.safe_dump(HOSTILE))
    reportpages.simulation(target, [hostile])
    return target


@pytest.fixture(scope="module")
def why(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("page") / "why.html"
    reportpages.explanation(target)
    return target


class Opened:
    """The page in a browser, and what it has said and asked for."""

    def __init__(
        self, browser: Browser, report: Path, size: tuple[int, int] = (1280, 800), scheme: Any = "light"
    ) -> None:
        self.context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: self.said.append(dialog.message))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(report.as_uri())

    def shown(self) -> list[str]:
        """The names of the Pods of the table."""
        names = self.page.locator("#pods tbody th > a:visible, #pods tbody th > bdi:visible")
        return [each.inner_text() for each in names.all()]


@pytest.fixture
def opened(browser: Browser, report: Path) -> Iterator[Opened]:
    found = Opened(browser, report)
    yield found
    found.context.close()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_readable(
    browser: Browser, installed: Chromium, request: Any, name: str, size: tuple[int, int], scheme: str
) -> None:
    """Nothing is said or asked, no part is wider than the window, and axe-core finds nothing, closed or open."""
    report = request.getfixturevalue(name)
    opened = Opened(browser, report, size, scheme)
    page = opened.page
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    page.emulate_media(reduced_motion="reduce")
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    page.evaluate(installed.axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]] == []
    assert (opened.said, opened.asked) == ([], [report.as_uri()])
    opened.context.close()


def test_dark_is_dark_and_paper_is_light(browser: Browser, report: Path) -> None:
    opened = Opened(browser, report, scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = opened.page.evaluate(ground)
    opened.page.emulate_media(media="print")
    light = opened.page.evaluate(ground)
    assert (dark, light) == ("rgb(20, 22, 26)", "rgb(250, 249, 246)")
    assert not opened.page.locator("nav").is_visible()
    opened.context.close()


def test_paper_shows_what_is_folded(opened: Opened) -> None:
    folded = opened.page.locator("details:not([open])")
    before = folded.count()
    opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    on_paper = folded.count()
    opened.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert (on_paper, folded.count()) == (0, before)
    assert before > 0


def test_rows_are_filtered_by_text_and_state(opened: Opened) -> None:
    everything = opened.shown()
    opened.page.get_by_label("Filter", exact=True).and_(opened.page.locator("input")).fill("ml/train")
    assert opened.shown() == [each for each in everything if each.startswith("ml/train")]
    assert opened.page.locator("#matches").inner_text() == f"5 of {len(everything)} rows"
    bars = bars_of(opened)
    assert {each.partition("-")[0] for each in bars} == {"ml/train"}
    assert opened.page.locator("#matrix tbody tr:visible").count() == 5
    opened.page.get_by_label("Show").select_option("pending")
    assert opened.shown() == []
    opened.page.get_by_label("Filter", exact=True).and_(opened.page.locator("input")).fill("")
    assert opened.shown() == [
        each for each in everything if each.startswith(("ml/large", "ml/trans", "web/an", "web/ar", f"web/{LONG}"))
    ]


def bars_of(opened: Opened) -> list[str]:
    return [each.inner_text() for each in opened.page.locator("#timeline .name:visible").all()]


def test_a_row_that_is_named_like_another_is_one_of_its_own(browser: Browser, tmp_path: Path) -> None:
    """Two groups of Pods of one Deployment, of which one has Nodes: their rows have the same name."""
    target = tmp_path / "report.html"
    rendering.write(target, page_of_two())
    opened = Opened(browser, target)
    assert (opened.shown(), bars_of(opened)) == (["shop (200 Pods)"] * 2, ["shop (200 Pods)"] * 2)
    opened.page.get_by_label("Show").select_option("placed")
    assert (opened.shown(), bars_of(opened)) == (["shop (200 Pods)"], ["shop (200 Pods)"])
    assert opened.page.locator("#timeline .said:visible").inner_text() == "has a Node after 0 s"
    assert opened.page.locator("#matrix tbody tr:visible .cell").inner_text() == "●"
    opened.context.close()


def page_of_two() -> Any:
    states: dict[State, str] = {"pending": "has no Node", "placed": "has a Node after 0 s"}
    rows = [
        PodRow(str(number), "shop (200 Pods)", 200, "", state, "", "", "", "", "", "")
        for number, state in enumerate(states)
    ]
    bars = [Bar(row.id, row.label, states[row.state], ()) for row in rows]
    cells = [Row("0", rows[0].label), Row("1", rows[1].label, on={"n1": 200})]
    return values.Page(
        title="Two",
        headline="Two",
        subtitle="",
        figures=(),
        pods=values.Pods(tuple(rows)),
        timeline=Timeline(1.0, tuple(bars)),
        matrix=matrix(cells, ["n1"]),
        devices=None,
        tolerations=Tolerations(()),
        answers=(),
    )


def test_an_explanation_shows_its_cause_and_moments(browser: Browser, why: Path) -> None:
    opened = Opened(browser, why)
    assert opened.page.locator("h1").inner_text() == "Why this Pod waits"
    assert opened.page.locator("article.answer .cause").first.inner_text() == "PoolIncomplete"
    assert "FailedScheduling: " in opened.page.locator(".moments").inner_text()
    assert [each.partition("-")[0] for each in opened.shown()] == ["ml/large"]
    opened.context.close()


def test_a_column_is_sorted_with_the_keyboard(opened: Opened) -> None:
    head = opened.page.get_by_role("button", name="Pod", exact=True)
    head.focus()
    opened.page.keyboard.press("Enter")
    assert opened.shown() == sorted(opened.shown())
    assert opened.page.locator("th[aria-sort=ascending]").inner_text().startswith("Pod")
    opened.page.keyboard.press("Enter")
    assert opened.shown() == sorted(opened.shown(), reverse=True)


def test_arrow_keys_go_through_the_matrix_and_say_what_is_there(opened: Opened) -> None:
    page = opened.page
    page.locator("#matrix tbody a").last.focus()
    assert page.locator("#matrix [tabindex='0'].cell").count() == 1
    page.locator("#matrix [tabindex='0'].cell").focus()
    assert detail(page).startswith("ml/large-model-")
    page.keyboard.press("ArrowRight")
    second = detail(page)
    page.keyboard.press("ArrowDown")
    assert detail(page).partition(",")[0] != second.partition(",")[0]
    assert page.evaluate("document.activeElement.cellIndex") == 2
    page.keyboard.press("Escape")
    assert not page.locator("#detail").is_visible()


def detail(page: Page) -> str:
    return page.locator("#detail").inner_text()


def test_devices_are_shown_as_a_request_sees_them(opened: Opened) -> None:
    page = opened.page

    def letters() -> str:
        return "".join(each.inner_text() for each in page.locator("button.tile").all())

    assert letters() == "TTFFFFFF" + "TTFFFF!F" + "TFFF"
    page.get_by_label("As seen").select_option("1")
    assert letters() == "S" * 16 + "TFFF"
    page.locator("button.tile").first.focus()
    assert "not selected: claim ml/large-model-" in detail(page)


def test_a_pod_leads_to_its_explanation(opened: Opened) -> None:
    page = opened.page
    page.locator("#pods tbody a", has_text="ml/translate-").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.matches('article.answer')")
    assert page.locator("article.answer:target .cause").first.inner_text() == "ClassMissing"


def test_a_tenants_text_is_text(opened: Opened) -> None:
    row = opened.page.locator("#pods tbody tr", has_text=LONG)
    assert r'no scheduler <img src="http://127.0.0.1:9/x" onerror="alert(1)">\u202eevil' in row.inner_text()
    assert opened.page.locator("img").count() == 0
