"""The main function of the generators: write the files that are out of date, or with --check only name them."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent


def main(generated: Mapping[str, str]) -> int:
    """`generated` is text by path under the repository's root.  1 when --check found stale files, 2 on wrong usage."""
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.stderr.write("no arguments: write the files; --check: exit 1 and name those that are not up to date\n")
        return 2
    stale = [name for name, text in generated.items() if _current(ROOT / name) != text]
    for name in stale:
        if not check:
            (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / name).write_text(generated[name], encoding="utf-8")
        sys.stdout.write(f"{name}: {'not up to date, run: make generate' if check else 'written'}\n")
    return int(check and bool(stale))


def reference(header: str, pages: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """The texts of pages in docs/reference, given their lines."""
    return {f"docs/reference/{name}": header + "\n" + "\n".join(lines).rstrip() + "\n" for name, lines in pages.items()}


def _current(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None
