"""The controllers process, except that it records no Events: what releasing costs without telling about it.

Run by the workload `ungate` as `python -m benchmarks.without_events`.  There is no such option in the product.
"""

import sys

from controllers.__main__ import command
from tollbar.model.objects import Object
from tollbar.model.plan import Event
from tollbar.runtime.events import Recorder


class _Silent(Recorder):
    def emit(self, regarding: Object, event: Event, related: Object | None = None) -> None:
        """Nothing."""


if __name__ == "__main__":
    Recorder.emit = _Silent.emit  # type: ignore[method-assign]
    sys.exit(command())
