"""The controllers process, except that it records no Events: what releasing costs without telling about it.

Run by the workload `ungate` as `python -m benchmarks.without_events`.  There is no such option in the product.
"""

import sys

from controllers.__main__ import command
from tollbar.model.objects import Object
from tollbar.model.plan import Event
from tollbar.runtime.events import Recorder


def _say_nothing(_recorder: Recorder, _regarding: Object, _event: Event, _related: Object | None = None) -> None:
    """In the place of `Recorder.emit`."""


if __name__ == "__main__":
    Recorder.emit = _say_nothing  # type: ignore[assignment, method-assign]
    sys.exit(command())
