"""The controllers process without the recording of Events, for the workload `ungate`.

The product has no such option.
"""

import sys

from controllers.__main__ import command
from tollbar.model.objects import Object
from tollbar.model.plan import Event
from tollbar.runtime.events import Recorder


def _emit_nothing(_recorder: Recorder, _regarding: Object, _event: Event, _related: Object | None = None) -> None:
    """Replaces `Recorder.emit`."""


if __name__ == "__main__":
    Recorder.emit = _emit_nothing  # type: ignore[assignment, method-assign]
    sys.exit(command())
