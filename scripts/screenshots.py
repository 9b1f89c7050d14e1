"""Takes the pictures of pages in docs/pictures/report, in a headless Chromium, of the cluster and the Pods beside them.

    make screenshots

Nothing checks that they are up to date: fonts and browsers differ from machine to machine.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from generating import ROOT

sys.path.insert(0, str(ROOT / "tests"))

from integration import reportpages
from integration.browser import chromium
from playwright.sync_api import Browser

PICTURES: Final = ROOT / "docs" / "pictures" / "report"
WIDE: Final = (1000, 700)
PHONE: Final = (390, 780)
TALL: Final = (1000, 1000)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        report, why = Path(folder) / "report.html", Path(folder) / "why.html"
        reportpages.simulation(report)
        reportpages.explanation(why)
        with chromium().running() as browser:
            _take(browser, report, "summary", None)
            _take(browser, report, "timeline", "#timeline", scheme="dark")
            _take(browser, report, "matrix", "#matrix")
            _take(browser, report, "devices", "#devices", view="1")
            _take(browser, report, "tolerations", "#tolerations")
            _take(browser, report, "explanation", "#why-2", scheme="dark")
            _take(browser, report, "phone", None, size=PHONE, scheme="dark")
            _take(browser, why, "pod", None, size=TALL)


def _take(
    browser: Browser,
    report: Path,
    name: str,
    part: str | None,
    *,
    size: tuple[int, int] = WIDE,
    scheme: Any = "light",
    view: str = "",
) -> None:
    """A part of the page, or what a window shows of it at first."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page.goto(report.as_uri())
    if view:
        page.locator("#view").select_option(view)
    target = PICTURES / f"{name}.png"
    if part is None:
        page.screenshot(path=target)
    else:
        page.locator(part).first.screenshot(path=target)
    page.close()
    sys.stdout.write(f"{target.relative_to(ROOT)}: {target.stat().st_size // 1024} KiB\n")


if __name__ == "__main__":
    main()
