"""Pods that wait for an event: rejected in their last attempt, or gated.

They are indexed by the plugins that can let them go, so that an event touches only those that it can concern.

Source: pkg/scheduler/backend/queue/unschedulable_entities.go; the index is Tollbar's own.
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
        self._by_plugins: dict[str, dict[str, dict[Key, QueuedPod]]] = {}
        """By the plugin that gates them, empty for none, and by each plugin that rejected them."""
        self._plugins_of: dict[Key, tuple[str, Collection[str]]] = {}
        """The plugins by which a Pod is indexed: the one that gates it, and those that rejected it."""
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
        """Add a Pod, or index it anew after its plugins have changed."""
        key = queued.pod.key
        self.remove(key)
        self._pods[key] = queued
        self._plugins_of[key] = (queued.gating_plugin, queued.rejectors)
        self._gated += queued.is_gated
        by_rejector = self._by_plugins.setdefault(queued.gating_plugin, {})
        for plugin in queued.rejectors:
            by_rejector.setdefault(plugin, {})[key] = queued

    def remove(self, key: Key) -> QueuedPod | None:
        if key not in self._pods:
            return None
        gate, rejectors = self._plugins_of.pop(key)
        for plugin in rejectors:
            del self._by_plugins[gate][plugin][key]
        self._gated -= bool(gate)
        return self._pods.pop(key)

    def concerned(self, by: Concerned) -> list[QueuedPod]:
        """The Pods that an event can concern; gated ones only if the plugin that gates them registered for it."""
        found: dict[Key, QueuedPod] = {}
        for gate, by_rejector in self._by_plugins.items():
            if gate and gate not in by:
                continue
            for plugin, keys in by.items():
                rejected = by_rejector.get(plugin, {})
                found.update(rejected if keys is None else {key: rejected[key] for key in keys if key in rejected})
        return list(found.values())
