"""PreEnqueue: whether a Pod may be tried at all.

Source: runPreEnqueuePluginsForPod in pkg/scheduler/backend/queue/scheduling_queue.go.
"""

import logging
from collections.abc import Sequence

from tollbar.scheduler.framework.interface import PreEnqueue
from tollbar.scheduler.framework.status import Code, Status, failed
from tollbar.scheduler.queue.queued import QueuedPod

log = logging.getLogger(__name__)


def rejection(plugins: Sequence[PreEnqueue], queued: QueuedPod) -> Status | None:
    """The first answer that is no success, said by its plugin.  The plugin that gates the Pod is asked first."""
    for plugin in sorted(plugins, key=lambda each: each.name != queued.gating_plugin):
        if (status := _asked(plugin, queued)) is not None:
            return status.with_plugin(plugin.name)
    return None


def _asked(plugin: PreEnqueue, queued: QueuedPod) -> Status | None:
    try:
        status = plugin.pre_enqueue(queued.pod)
    except Exception as error:
        status = failed(str(error), error)
    if status is not None and status.code is Code.ERROR:
        log.error(
            "Unexpected error running PreEnqueue plugin %s for pod %s: %s", plugin.name, queued.pod.key, status.message
        )
    return status
