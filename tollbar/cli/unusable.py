"""The error of what a command reads or writes and cannot use."""

import click

from tollbar.model.fields import printable


class Unusable(click.ClickException):
    """What is to be read or written cannot be.  The exit code is 2, because 1 is the answer of some commands."""

    exit_code = 2

    def format_message(self) -> str:
        return printable(self.message)
