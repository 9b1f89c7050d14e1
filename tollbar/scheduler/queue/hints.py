"""Whether an event lets a Pod be tried again: the hints of the plugins that rejected it.

Source: isPodWorthRequeuing and runPreQueueingHintPlugins in pkg/scheduler/backend/queue/scheduling_queue.go,
buildQueueingHintMap in pkg/scheduler/scheduler.go, fillEnqueueExtensions in pkg/scheduler/framework/runtime.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, TypeAlias

from tollbar.model.objects import Key
from tollbar.scheduler.framework.events import (
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    PreQueueingHintFn,
    QueueingHint,
)
from tollbar.scheduler.framework.interface import (
    EnqueueExtensions,
    Filter,
    Permit,
    Plugin,
    PreEnqueue,
    PreFilter,
    Reserve,
)
from tollbar.scheduler.queue.queued import QueuedPod
from tollbar.scheduler.queue.unschedulable import Concerned

log = logging.getLogger(__name__)

Registrations: TypeAlias = Mapping[str, Sequence[ClusterEventWithHint]]
"""What plugins, by name, registered for."""

_ALL_RESOURCES: Final = (
    EventResource.ASSIGNED_POD,
    EventResource.UNSCHEDULED_POD,
    EventResource.TARGET_POD,
    EventResource.NODE,
    EventResource.PERSISTENT_VOLUME,
    EventResource.PERSISTENT_VOLUME_CLAIM,
    EventResource.CSI_NODE,
    EventResource.CSI_DRIVER,
    EventResource.CSI_STORAGE_CAPACITY,
    EventResource.STORAGE_CLASS,
    EventResource.RESOURCE_CLAIM,
    EventResource.DEVICE_CLASS,
)
"""What wakes Pods of a plugin that does not say; kube-scheduler leaves ResourceSlices and VolumeAttachments out."""
EVERY_EVENT: Final = tuple(ClusterEventWithHint(ClusterEvent(each, Action.ALL)) for each in _ALL_RESOURCES)


class Requeue(IntEnum):
    """What becomes of a Pod that waits for an event; the greater wins."""

    NO = 0
    AFTER_BACKOFF = 1
    AT_ONCE = 2


def registrations(plugins: Iterable[Plugin]) -> Registrations:
    """The events that the plugins of a profile register for.

    Only the plugins that can reject a Pod count: those of PreEnqueue, PreFilter, Filter, Reserve and Permit.
    """
    return {
        plugin.name: plugin.events_to_register() if isinstance(plugin, EnqueueExtensions) else EVERY_EVENT
        for plugin in plugins
        if isinstance(plugin, PreEnqueue | PreFilter | Filter | Reserve | Permit)
    }


class Hints:
    """The registrations of all profiles, by name of the profile."""

    def __init__(self, profiles: Mapping[str, Registrations]) -> None:
        self._profiles = profiles
        self._matching: dict[ClusterEvent, dict[str, Registrations]] = {}

    def are_registered(self, event: ClusterEvent) -> bool:
        """Whether a plugin registered for the event."""
        return any(self._for(event).values())

    def concerned(self, event: ClusterEvent, old: Any, new: Any) -> Concerned:
        """Whom the event can concern; nobody if no plugin registered for it.

        Each plugin is asked once which Pods it is about (KEP-6132).
        """
        found: dict[str, Collection[Key] | None] = {}
        for profile in self._for(event).values():
            for plugin, matching in profile.items():
                asked = _narrowed(matching, old, new)
                before = found.get(plugin, ())
                found[plugin] = None if asked is None or before is None else {*asked, *before}
        return found

    def requeue(
        self, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any, concerned: Concerned | None = None
    ) -> Requeue:
        """Whether the event wakes the Pod; at once if a plugin says so that rejected it with Pending.

        A wildcard event about one Pod wakes no other one.  `concerned` spares hints of plugins that have said before
        that the event is not about this Pod.
        """
        rejectors = queued.rejectors
        if not rejectors:
            return Requeue.AFTER_BACKOFF
        if event.is_wildcard:
            return Requeue.AFTER_BACKOFF if new is None or new.uid == queued.pod.uid else Requeue.NO
        found = Requeue.NO
        for plugin, matching in self._for(event)[queued.profile].items():
            if plugin not in rejectors or not _may_concern(concerned, plugin, queued.pod.key):
                continue
            if any(_queues(plugin, each, queued, old, new) for each in matching):
                if plugin in queued.pending_plugins:
                    return Requeue.AT_ONCE
                found = Requeue.AFTER_BACKOFF
                if not queued.pending_plugins:
                    break
        return found

    def _for(self, event: ClusterEvent) -> dict[str, Registrations]:
        """The registrations that match an event, by profile and plugin."""
        if event not in self._matching:
            self._matching[event] = {
                name: {
                    plugin: matching
                    for plugin, registered in profile.items()
                    if (matching := [each for each in registered if each.event.matches(event)])
                }
                for name, profile in self._profiles.items()
            }
        return self._matching[event]


def _may_concern(concerned: Concerned | None, plugin: str, key: Key) -> bool:
    if concerned is None:
        return True
    keys = concerned.get(plugin)
    return keys is None or key in keys


def _narrowed(matching: Sequence[ClusterEventWithHint], old: Any, new: Any) -> Collection[Key] | None:
    """The Pods that an event is about, as all registrations of a plugin say; None for all Pods."""
    found: set[Key] = set()
    for each in matching:
        keys = None if each.pre_hint is None else _asked(each.pre_hint, old, new)
        if keys is None:
            return None
        found.update(keys)
    return found


def _asked(pre_hint: PreQueueingHintFn, old: Any, new: Any) -> Iterable[Key] | None:
    if old is None and new is None:
        return None
    try:
        return pre_hint(old, new)
    except Exception:
        log.exception("PreQueueingHintFn failed, falling back to evaluate all pods")
        return None


def _queues(plugin: str, registered: ClusterEventWithHint, queued: QueuedPod, old: Any, new: Any) -> bool:
    if registered.hint is None:
        return True
    try:
        return registered.hint(queued.pod, old, new) is QueueingHint.QUEUE
    except Exception:
        # A Pod must not be stuck because a plugin cannot tell.
        log.exception("QueueingHintFn of %s failed for pod %s", plugin, queued.pod.key)
        return True
