"""`python -m tollbar.cli`: the `tollbar` command where its script is not on PATH."""

from tollbar.cli import main

main(prog_name="tollbar")
