"""Runs the operations of a workload on a control plane.

What happens before metrics are collected, the set-up, is scheduled by a kube-scheduler with raised limits, whichever
scheduler is measured: so each finds the same cluster.  Then that one is stopped.  The measured one starts where
collecting begins; Pods that are measured exist by then (a backlog), unless `live`.

Source: scheduler_perf/executor.go.
"""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

import orjson

from benchmarks.schedulerperf import objects
from benchmarks.schedulerperf.allocating import allocations
from benchmarks.schedulerperf.figures import Series, histogram
from benchmarks.schedulerperf.files import Chosen
from benchmarks.schedulerperf.observer import Observer, PodKey
from benchmarks.schedulerperf.operations import (
    AllocResourceClaims,
    Barrier,
    Churn,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    CreateResourceClaims,
    DeletePods,
    Operation,
    Sleep,
    StartCollectingMetrics,
    StopCollectingMetrics,
    UpdateAny,
)
from benchmarks.schedulerperf.peers import Peer, peak_rss
from benchmarks.schedulerperf.phase import Meter, Phase
from benchmarks.stage import Stage, in_parallel
from tollbar.devplane.layout import API_SERVER
from tollbar.devplane.plane import PlaneError
from tollbar.model.objects import Object, metadata
from tollbar.model.resources import (
    CSI_NODES,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from tollbar.runtime.client import PatchType
from tollbar.runtime.errors import AlreadyExists, ApiError, NotFound

_AT_ONCE: Final = 30
_POLL_SECONDS: Final = 0.02
_STEADY_POLL_SECONDS: Final = 0.002
_QUIET_SECONDS: Final = 2.5
"""More than a scheduler pauses between two of its Events."""
RESTLESS_SECONDS: Final = 30.0
"""A scheduler that goes on writing, about Pods that it cannot schedule for instance, is not waited for any longer."""
_PATIENCE_SECONDS: Final = 600.0
_CLEARING_SECONDS: Final = 120.0
_SHOWN: Final = 3
_BACKGROUND: Final = orjson.dumps(
    {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "propagationPolicy": "Background"}
)


class WorkloadError(Exception):
    """A workload that did not come to its end, and why."""


@dataclass
class Executor:
    """One run of one workload.  `setting_up` and `measured` are the schedulers of the two parts."""

    stage: Stage
    chosen: Chosen
    setting_up: Peer
    measured: Peer
    live: bool = False
    patience: float = _PATIENCE_SECONDS
    _observer: Observer = field(init=False)
    _labels: dict[PodKey, Mapping[str, str]] = field(default_factory=dict)
    """Of all Pods that this has created."""
    _pods: dict[PodKey, Mapping[str, str]] = field(default_factory=dict)
    """Of those that this has not deleted."""
    _gated: set[PodKey] = field(default_factory=set)
    _unwaited: dict[str, int] = field(default_factory=dict)
    """How many Pods of a namespace were created for which no operation has waited."""
    _touched: dict[tuple[Resource, str], None] = field(default_factory=dict)
    """Kinds and namespaces of what was created, in their order."""
    _beside: list[asyncio.Task[None]] = field(default_factory=list)
    _scheduler: Peer | None = None
    _collecting: "_Collecting | None" = None
    _phase: Phase | None = None

    def __post_init__(self) -> None:
        self._observer = Observer(self.stage.stack.plane.audit)

    async def run(self) -> Phase:
        """Do all operations, then remove what they have created.  Raises WorkloadError."""
        try:
            await self._switch(self.setting_up)
            for index, operation in enumerate(self.chosen.operations):
                await self._do(index, operation)
                self._check_beside()
        except (ApiError, ExceptionGroup) as error:
            refusals = _refusals(error)
            if not refusals:
                raise
            raise WorkloadError(f"the API server refused: {refusals[0]}") from error
        finally:
            await self._end()
        if self._phase is None:
            raise WorkloadError("it has not ended its collecting of metrics")
        return self._phase

    async def _do(self, index: int, operation: Operation) -> None:
        match operation:
            case CreateNodes():
                await self._create_nodes(operation, index)
            case CreateNamespaces():
                for namespace in objects.namespaces(self.chosen.directory, operation):
                    await self._namespace(namespace["metadata"]["name"], namespace)
            case CreatePods():
                await self._create_pods(operation, operation.namespace or f"namespace-{index}")
            case CreateAny():
                await self._create_any(operation)
            case UpdateAny():
                await self._update_any(operation)
            case CreateResourceClaims():
                await self._namespace(operation.namespace)
                claim = objects.plain(self.chosen.directory / operation.template_path)
                await self._create_all(RESOURCE_CLAIMS, [claim] * operation.count, operation.namespace)
            case AllocResourceClaims():
                await self._allocate(operation.namespace)
            case Churn():
                place = operation.namespace or f"namespace-{index}"
                await self._namespace(place)
                self._beside.append(asyncio.create_task(self._churn(operation, place)))
            case DeletePods():
                deleting = self._delete_pods(operation)
                if operation.skip_wait_to_completion:
                    self._beside.append(asyncio.create_task(deleting))
                else:
                    await deleting
            case Barrier():
                await self._barrier(operation)
            case Sleep():
                await asyncio.sleep(operation.duration)
            case StartCollectingMetrics():
                self._begin()
                await self._switch(self.measured)
            case StopCollectingMetrics():
                start = next(each for each in self.chosen.operations if isinstance(each, StartCollectingMetrics))
                counted = [
                    key
                    for key, labels in self._labels.items()
                    if key[0] in start.namespaces and _matches(labels, start.label_selector)
                ]
                await self._finish(counted)

    # Set-up.

    async def _create_nodes(self, operation: CreateNodes, index: int) -> None:
        made = list(objects.nodes(self.chosen.directory, operation, index))
        await self._create_all(NODES, [node for node, _ in made])
        await self._create_all(CSI_NODES, [csi_node for _, csi_node in made if csi_node is not None])

    async def _namespace(self, name: str, obj: Object | None = None) -> None:
        """Namespaces stay from one run to the next."""
        with suppress(AlreadyExists):
            await self.stage.admin.create(NAMESPACES, obj or {**NAMESPACES.type_meta, "metadata": {"name": name}})

    async def _create_any(self, operation: CreateAny) -> None:
        if operation.namespace:
            await self._namespace(operation.namespace)
        made = list(objects.any_objects(self.chosen.directory / operation.template_path, operation))
        if made:
            await self._create_all(objects.resource_of(made[0]), made, operation.namespace)

    async def _update_any(self, operation: UpdateAny) -> None:
        ticks = _Ticks(operation.update_per_second)
        for obj in objects.any_objects(self.chosen.directory / operation.template_path, operation):
            await ticks.next()
            resource, name = objects.resource_of(obj), obj["metadata"]["name"]
            for subresource in ("/".join(operation.subresources), "status"):
                path = resource.path(operation.namespace, name) + (f"/{subresource}" if subresource else "")
                await self.stage.admin.raw("PUT", path, orjson.dumps(obj))

    async def _allocate(self, namespace: str) -> None:
        claims = await self._all(RESOURCE_CLAIMS, namespace)
        slices, classes, nodes = [await self._all(each) for each in (RESOURCE_SLICES, DEVICE_CLASSES, NODES)]
        allocated = allocations(claims, slices, classes, nodes, random.Random(0))

        async def write(claim: Object) -> None:
            await self.stage.admin.replace(RESOURCE_CLAIMS, {**RESOURCE_CLAIMS.type_meta, **claim}, "status")

        await in_parallel(allocated, write, at_once=_AT_ONCE)

    # Pods.

    async def _create_pods(self, operation: CreatePods, namespace: str) -> None:
        await self._namespace(namespace)
        for claim, volume in objects.volumes(self.chosen.directory, operation, namespace):
            await self._create_with_status(PERSISTENT_VOLUME_CLAIMS, claim, namespace)
            await self._create_with_status(PERSISTENT_VOLUMES, volume, "")
        pods = objects.pods(self.chosen.directory, operation, self.chosen.default_pod_template)
        if operation.steady_state:
            await self._steadily(operation, namespace, pods)
            return
        backlog = operation.collect_metrics and not self.live
        if backlog:
            await self._switch(None)
        elif operation.collect_metrics:
            self._begin()
            await self._switch(self.measured)
        created = await self._create_all(PODS, pods, namespace)
        if backlog:
            self._begin()
            await self._switch(self.measured)
        if operation.skip_wait_to_completion:
            self._unwaited[namespace] = self._unwaited.get(namespace, 0) + operation.count
            return
        await self._until_bound(created)
        if operation.collect_metrics:
            await self._finish(created)

    async def _steadily(self, operation: CreatePods, namespace: str, pods: Iterator[Object]) -> None:
        """Each Pod that is bound is deleted, and another one created in its place."""
        if operation.collect_metrics:
            self._begin()
            await self._switch(self.measured)
        seen: list[PodKey] = []

        async def next_after(key: PodKey | None) -> None:
            if key is not None:
                await self.stage.admin.raw("DELETE", PODS.path(*key), _BACKGROUND)
            seen.append(_key(await self._create(PODS, next(pods), namespace)))

        until = time.monotonic() + operation.duration
        async with asyncio.TaskGroup() as replacing:
            for _ in range(operation.count):
                replacing.create_task(next_after(None))
            while time.monotonic() < until:
                for key in self._observer.read():
                    if key[0] == namespace:
                        replacing.create_task(next_after(key))
                self._check_beside()
                await asyncio.sleep(_STEADY_POLL_SECONDS)
        if operation.collect_metrics:
            await self._finish(seen, until=time.time())

    async def _delete_pods(self, operation: DeletePods) -> None:
        doomed = [
            key
            for key, labels in self._pods.items()
            if key[0] == operation.namespace and _matches(labels, operation.label_selector)
        ]
        if operation.delete_pods_per_second:
            ticks = _Ticks(operation.delete_pods_per_second)
            for namespace, name in doomed:
                await ticks.next()
                with suppress(NotFound):
                    await self.stage.admin.delete(PODS, name, namespace)
                self._pods.pop((namespace, name), None)
            return
        selector = ",".join(f"{key}={value}" for key, value in operation.label_selector.items())
        await self.stage.admin.raw("DELETE", PODS.path(operation.namespace), query={"labelSelector": selector})
        for key in doomed:
            self._pods.pop(key, None)

    async def _churn(self, operation: Churn, namespace: str) -> None:
        templates = [objects.plain(self.chosen.directory / path) for path in operation.template_paths]
        places = operation.number or 1
        names: list[list[str]] = [[""] * places for _ in templates]
        ticks = _Ticks(1000 / operation.interval_milliseconds)
        count = 0
        while operation.mode == "recreate" or count < (operation.number or math.inf):
            await ticks.next()
            for template, made in zip(templates, names, strict=True):
                resource = objects.resource_of(template)
                if operation.mode == "recreate" and (name := made[count % places]):
                    made[count % places] = ""
                    with suppress(NotFound):
                        await self.stage.admin.delete(resource, name, namespace if resource.namespaced else "")
                else:
                    made[count % places] = _key(await self._create(resource, template, namespace))[1]
            count += 1

    # Waiting.

    async def _barrier(self, operation: Barrier) -> None:
        attempted = operation.stage_requirement == "Attempted"
        for namespace in operation.namespaces or [*self._unwaited]:
            wanted = self._unwaited.get(namespace, 0)

            def missing(namespace: str = namespace, wanted: int = wanted) -> int:
                return wanted - sum(
                    key in self._observer.bound
                    or (attempted and (key in self._observer.attempted or key in self._gated))
                    for key, labels in self._pods.items()
                    if key[0] == namespace and _matches(labels, operation.label_selector)
                )

            await self._until(lambda: missing() <= 0, lambda: f"{missing()} Pods of {namespace} at a barrier")  # noqa: B023
            if not attempted:
                self._unwaited.pop(namespace, None)

    async def _until_bound(self, pods: Sequence[PodKey]) -> None:
        waiting = set(pods)

        def over() -> bool:
            waiting.difference_update(self._observer.bound)
            return not waiting

        def what() -> str:
            return f"{len(waiting)} Pods, such as {', '.join(name for _, name in sorted(waiting)[:_SHOWN])}"

        await self._until(over, what)

    async def _until(self, over: Callable[[], bool], what: Callable[[], str]) -> None:
        deadline = time.monotonic() + self.patience
        self._observer.read()
        while not over():
            if time.monotonic() > deadline:
                raise WorkloadError(f"not scheduled within {self.patience:g} s: {what()}")
            self._check_beside()
            await asyncio.sleep(_POLL_SECONDS)
            self._observer.read()

    def _check_beside(self) -> None:
        """Raises WorkloadError where something has ended that should not have."""
        if self._scheduler is not None and self._scheduler.pid is None:
            raise WorkloadError("the scheduler has ended")
        for task in self._beside:
            if task.done() and (error := task.exception()) is not None:
                raise WorkloadError(f"an operation beside the others failed: {error!r}") from error

    # Schedulers and the phase that is measured.

    async def _switch(self, scheduler: Peer | None) -> None:
        """This scheduler runs from now on, and no other; the one that runs stays if it is this one."""
        if scheduler is self._scheduler:
            return
        running, self._scheduler = self._scheduler, None
        if running is not None:
            await running.stop()
        if scheduler is not None:
            self._scheduler = scheduler
            try:
                await scheduler.start(self.chosen.configuration)
            except (AssertionError, PlaneError) as error:
                raise WorkloadError(f"the scheduler did not start: {error}") from error

    def _begin(self) -> None:
        server = self.stage.stack.plane.pids[API_SERVER]
        self._collecting = _Collecting(time.time(), Meter(lambda: self.measured.pid, server))

    async def _finish(self, counted: Iterable[PodKey], until: float = 0.0) -> None:
        """Collecting ends: with the last of the Pods that count and what is written after it, or at the given time."""
        rest = until or await self._rest()
        collecting, self._collecting = self._collecting, None
        assert collecting is not None
        assert self.measured.pid is not None
        await collecting.end()
        bound = self._observer.bound
        times = sorted(bound[key] for key in counted if key in bound and collecting.begin <= bound[key] <= rest)
        end = until or (times[-1] if times else rest)
        exposed = await asyncio.to_thread(self.measured.metrics)
        meter = collecting.meter
        rss = peak_rss(self.measured.pid)
        await self._switch(None)  # which writes the last readings of the event loop
        self._phase = Phase(
            begin=collecting.begin,
            end=end,
            rest=rest,
            times=times,
            cpu=Series(meter.times, meter.cpu),
            server_cpu=Series(meter.times, meter.server_cpu),
            attempts=histogram(exposed, "scheduler_scheduling_attempt_duration_seconds"),
            algorithm=histogram(exposed, "scheduler_scheduling_algorithm_duration_seconds"),
            writes={what: ats for (user, what), ats in self._observer.writes.items() if user == self.measured.user},
            peak_rss=rss,
            stalls=self.measured.stalls(end),
        )

    async def _rest(self) -> float:
        """Wait until the measured scheduler writes nothing any more; the time (seconds since the epoch)."""
        deadline = time.time() + RESTLESS_SECONDS
        while (now := time.time()) < deadline:
            self._observer.read()
            last = self._observer.latest.get(self.measured.user, now)
            if now - last > _QUIET_SECONDS:
                return last
            await asyncio.sleep(_POLL_SECONDS)
        return now

    async def _end(self) -> None:
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)
        if self._collecting is not None:
            await self._collecting.end()
        await self._switch(None)
        await self._clear()

    async def _clear(self) -> None:
        """Remove what was created, and what controllers have made for it."""
        claims = {(RESOURCE_CLAIMS, namespace): None for _, namespace in self._touched if namespace}
        doomed = sorted(self._touched | claims, key=lambda each: each[0] is not PODS)
        for resource, namespace in doomed:
            try:
                async with asyncio.timeout(_CLEARING_SECONDS):
                    while left := await self._all(resource, namespace):
                        await in_parallel(filter(_is_held, left), self._releasing(resource), at_once=_AT_ONCE)
                        path = resource.path(namespace)
                        await self.stage.admin.raw("DELETE", path, _BACKGROUND, timeout=_CLEARING_SECONDS)
            except TimeoutError as error:
                raise WorkloadError(f"{resource.plural} are still there after {_CLEARING_SECONDS:g} s") from error

    def _releasing(self, resource: Resource) -> Callable[[Object], Awaitable[None]]:
        """Takes away finalizers, for which the controllers do not run, or take their time."""

        async def release(obj: Object) -> None:
            namespace, name = _key(obj)
            patch = {"metadata": {"finalizers": None}}
            with suppress(NotFound):
                await self.stage.admin.patch(resource, name, patch, namespace=namespace, patch_type=PatchType.MERGE)

        return release

    # Requests.

    async def _create_all(self, resource: Resource, made: Iterable[Object], namespace: str = "") -> list[PodKey]:
        keys: list[PodKey] = []

        async def one(obj: Object) -> None:
            keys.append(_key(await self._create(resource, obj, namespace)))

        await in_parallel(made, one, at_once=_AT_ONCE)
        return keys

    async def _create(self, resource: Resource, obj: Object, namespace: str = "") -> Object:
        """The object as it was stored; members that the API server does not know are refused, as by upstream."""
        resource = replace(resource, version=obj["apiVersion"].rpartition("/")[2]) if "apiVersion" in obj else resource
        place = namespace if resource.namespaced else ""
        self._touched[resource, place] = None
        strict = {"fieldValidation": "Strict"}
        stored: Object = orjson.loads(
            await self.stage.admin.raw("POST", resource.path(place), orjson.dumps(obj), query=strict)
        )
        if resource == PODS:
            self._labels[_key(stored)] = self._pods[_key(stored)] = metadata(stored).get("labels") or {}
            if stored["spec"].get("schedulingGates"):
                self._gated.add(_key(stored))
        return stored

    async def _create_with_status(self, resource: Resource, obj: Object, namespace: str) -> None:
        stored = await self._create(resource, obj, namespace)
        await self.stage.admin.replace(resource, {**stored, "status": obj["status"]}, "status")

    async def _all(self, resource: Resource, namespace: str = "") -> list[Object]:
        found: list[Object] = []
        more = ""
        while True:
            page = await self.stage.admin.list(resource, namespace, continue_=more)
            found += page["items"]
            more = page["metadata"].get("continue") or ""
            if not more:
                return found


class _Collecting:
    """Readings under way."""

    def __init__(self, begin: float, meter: Meter) -> None:
        self.begin = begin
        self.meter = meter
        self._task = asyncio.create_task(meter.run())

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.meter.read()


class _Ticks:
    """So many turns a second, without those that were missed; 0 is no limit."""

    def __init__(self, per_second: float) -> None:
        self._period = 1 / per_second if per_second else 0.0
        self._due = time.monotonic()

    async def next(self) -> None:
        if self._period:
            self._due = max(self._due + self._period, time.monotonic())
            await asyncio.sleep(self._due - time.monotonic())


def _is_held(obj: Object) -> bool:
    return bool(metadata(obj).get("finalizers"))


def _refusals(error: Exception) -> list[ApiError]:
    """All that a group consists of, at any depth; nothing if something else is among it."""
    if isinstance(error, ExceptionGroup):
        found = [_refusals(each) for each in error.exceptions]
        return [refusal for each in found for refusal in each] if all(found) else []
    return [error] if isinstance(error, ApiError) else []


def _key(obj: Object) -> PodKey:
    return metadata(obj).get("namespace") or "", metadata(obj)["name"]


def _matches(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())
