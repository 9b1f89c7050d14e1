"""Pods that wait for an event: rejected in their last attempt, or gated.

They are filed by the plugins that can let them go, so that an event touches only those that it can concern.

Source: pkg/scheduler/backend/queue/unschedulable_entities.go; the files by plugin are Tollbar's own.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias

from tollbar.model.objects import Key
from tollbar.scheduler.queue.queued import QueuedPod

Concerned: TypeAlias = Mapping[str, Collection[Key] | None]
"""The plugins that registered for an event, each with the Pods that it can concern, None for all Pods."""


class UnschedulablePods:
    def __init__(self) -> None:
        self._pods: dict[Key, QueuedPod] = {}
        self._files: dict[str, dict[str, dict[Key, QueuedPod]]] = {}
        """By the plugin that gates them, empty for none, and by each plugin that rejected them."""
        self._filed: dict[Key, tuple[str, Collection[str]]] = {}
        self._gated = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, key: Key) -> bool:
        return key in self._pods

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods.values())

    @property
    def gated(self) -> int:
        """How many of them are gated."""
        return self._gated

    def get(self, key: Key) -> QueuedPod | None:
        return self._pods.get(key)

    def put(self, queued: QueuedPod) -> None:
        """Add a Pod, or file it anew after its plugins have changed."""
        key = queued.pod.key
        self.remove(key)
        self._pods[key] = queued
        self._filed[key] = (queued.gating_plugin, queued.rejectors)
        self._gated += queued.is_gated
        files = self._files.setdefault(queued.gating_plugin, {})
        for plugin in queued.rejectors:
            files.setdefault(plugin, {})[key] = queued

    def remove(self, key: Key) -> QueuedPod | None:
        if key not in self._pods:
            return None
        gate, rejectors = self._filed.pop(key)
        for plugin in rejectors:
            del self._files[gate][plugin][key]
        self._gated -= bool(gate)
        return self._pods.pop(key)

    def concerned(self, by: Concerned) -> list[QueuedPod]:
        """The Pods that an event can concern; gated ones only if the plugin that gates them registered for it."""
        found: dict[Key, QueuedPod] = {}
        for gate, files in self._files.items():
            if gate and gate not in by:
                continue
            for plugin, keys in by.items():
                filed = files.get(plugin, {})
                found.update(filed if keys is None else {key: filed[key] for key in keys if key in filed})
        return list(found.values())
