"""Terminals that remember what they have shown."""

import io

from rich.console import Console


class Terminal(io.StringIO):
    """A file of which somebody sees what is written."""

    def isatty(self) -> bool:
        return True

    def console(self) -> Console:
        return Console(file=self, force_terminal=True, width=80)

    @property
    def statuses(self) -> int:
        """How often something that moves was shown: the cursor is hidden meanwhile."""
        return self.getvalue().count("\x1b[?25l")
