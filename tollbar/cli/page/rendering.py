"""From the values of a page to HTML.

Names and texts come from tenants: everything is escaped, and what does not print is shown as an escape (`printable`).
The page says by its Content-Security-Policy that nothing is loaded, and that no script or style runs but its own.
"""

import base64
import hashlib
from importlib.resources import files
from pathlib import Path
from typing import Final

import click
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tollbar.cli import console
from tollbar.cli.page.values import Page, Segment
from tollbar.model.fields import printable

_THINNEST: Final = 0.75
"""Percent of the width that every part of a bar has at least."""

option: Final = click.option(
    "--html",
    "html",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write a page to this file, which shows all of it in a browser and needs no network.",
)


def html(page: Page) -> str:
    """The whole page; the same values give the same page."""
    folder = files(__package__)
    style = (folder / "page.css").read_text(encoding="utf-8")
    script = (folder / "page.js").read_text(encoding="utf-8")
    environment = Environment(
        loader=PackageLoader("tollbar.cli.page", "."),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"placed": _placed}
    return environment.get_template("page.html").render(
        page=page,
        style=Markup(style),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        policy=f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src '{_digest(style)}'; "
        f"script-src '{_digest(script)}'",
        line_break=Markup("&#10;"),
    )


def write(path: Path, page: Page) -> None:
    """Raises UnwritableFile."""
    with console.writing(path):
        path.write_text(html(page), encoding="utf-8")


def _shown(value: object) -> object:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _placed(segment: Segment, seconds: float) -> tuple[str, str]:
    """Where a part of a bar begins and how wide it is, in percent."""
    if not seconds:
        return "0%", "100%"
    begin, end = 100 * segment.begin / seconds, 100 * segment.end / seconds
    width = max(end - begin, _THINNEST)
    return f"{min(begin, 100 - width):.2f}%", f"{width:.2f}%"


def _digest(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"
