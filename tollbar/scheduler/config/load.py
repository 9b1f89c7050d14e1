"""From a configuration file to a SchedulerConfiguration, or everything that is wrong with the file.

Source: loadConfig in cmd/kube-scheduler/app/options, and defaults.go and validation.go in pkg/scheduler/apis/config.
"""

from collections.abc import Collection, Iterator
from typing import Any, Final

from tollbar.api import durations
from tollbar.model.fields import FieldError, duplicate, forbidden, invalid, required
from tollbar.model.objects import Object
from tollbar.scheduler.config import arguments, profiles
from tollbar.scheduler.config.document import ConfigError, Document, read
from tollbar.scheduler.config.schema import (
    BOOL,
    DURATION,
    FLOAT32,
    INT32,
    INT64,
    STRING,
    Anything,
    Decoder,
    ListOf,
    Struct,
)
from tollbar.scheduler.config.types import (
    ClientConnection,
    EnabledPlugin,
    LeaderElection,
    PluginSet,
    Profile,
    SchedulerConfiguration,
)

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"

_PLUGIN_SET: Final = Struct(
    "v1.PluginSet",
    {
        "enabled": ListOf(Struct("v1.Plugin", {"name": STRING, "weight": INT32})),
        "disabled": ListOf(Struct("v1.Plugin", {"name": STRING, "weight": INT32})),
    },
)
_POD_GROUP_POINTS: Final = ("placementGenerate", "placementScore", "podGroupPostFilter")
_PROFILE: Final = Struct(
    "v1.KubeSchedulerProfile",
    {
        "schedulerName": STRING,
        "percentageOfNodesToScore": INT32,
        "plugins": Struct(
            "v1.Plugins",
            dict.fromkeys((profiles.MULTI_POINT, *profiles.POINTS, *_POD_GROUP_POINTS), _PLUGIN_SET),
        ),
        "pluginConfig": ListOf(Struct("v1.PluginConfig", {"name": STRING, "args": Anything()})),
    },
)
_CONFIGURATION: Final = Struct(
    "v1.KubeSchedulerConfiguration",
    {
        "apiVersion": STRING,
        "kind": STRING,
        "parallelism": INT32,
        "leaderElection": Struct(
            "v1alpha1.LeaderElectionConfiguration",
            {
                "leaderElect": BOOL,
                "leaseDuration": DURATION,
                "renewDeadline": DURATION,
                "retryPeriod": DURATION,
                "resourceLock": STRING,
                "resourceName": STRING,
                "resourceNamespace": STRING,
            },
        ),
        "clientConnection": Struct(
            "v1alpha1.ClientConnectionConfiguration",
            {
                "kubeconfig": STRING,
                "acceptContentTypes": STRING,
                "contentType": STRING,
                "qps": FLOAT32,
                "burst": INT32,
            },
        ),
        "enableProfiling": BOOL,
        "enableContentionProfiling": BOOL,
        "percentageOfNodesToScore": INT32,
        "podInitialBackoffSeconds": INT64,
        "podMaxBackoffSeconds": INT64,
        "profiles": ListOf(_PROFILE),
        "extenders": Anything(),
        "delayCacheUntilActive": BOOL,
    },
)
_REMOVED_PLUGINS: Final = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
_STRICT: Final = "strict decoding error"


def load(given: str | Object, missing: Collection[str] = ()) -> SchedulerConfiguration:
    """The configuration in a YAML or JSON text, or in an object that is decoded already.  Raises ConfigError.

    Plugins of kube-scheduler that are `missing` are not among the default ones, and may not be enabled.
    """
    document = read(given) if isinstance(given, str) else Document(given)
    decoded = _decoded(document)
    found = _configuration(decoded, missing)
    errors = _Errors(document)
    for problem in _problems(found, decoded, missing):
        errors.add(problem.field, str(problem))
    errors.check()
    return found


def default(missing: Collection[str] = ()) -> SchedulerConfiguration:
    """The configuration of a file that says nothing."""
    return load({"apiVersion": API_VERSION, "kind": KIND}, missing)


class _Errors:
    """Sentences about a file, each with the path that it is about."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._errors: list[tuple[str, str]] = []

    def add(self, path: str, sentence: str) -> None:
        self._errors.append((self._document.place(path), sentence))

    def check(self) -> None:
        """Raise ConfigError if there are any."""
        if self._errors:
            raise ConfigError(self._errors)


def _decoded(document: Document) -> Object:
    """The known fields; of plugins that have them, arguments too.  Raises ConfigError for all others."""
    _check_kind(document.value)
    errors = _Errors(document)
    decoder = Decoder()
    given = decoder.decode(document.value, _CONFIGURATION)
    for path, text in decoder.wrong:
        errors.add(path, text)
    for path in document.duplicates:
        key = path.rpartition(".")[2]
        errors.add(path, f'{_STRICT}: key "{key}" already set in map')
    for path in decoder.unknown:
        errors.add(path, f'{_STRICT}: unknown field "{path}"')
    for path, config in _plugin_configs(given):
        if config.get("name") in arguments.KINDS:
            config["args"] = _decoded_arguments(path, config["name"], config.get("args"), errors)
    errors.check()
    return given


def _plugin_configs(given: Object) -> Iterator[tuple[str, Object]]:
    """Every pluginConfig, with its path."""
    for i, profile in enumerate(given.get("profiles") or ()):
        for j, config in enumerate(profile.get("pluginConfig") or ()):
            yield f"profiles[{i}].pluginConfig[{j}]", config


def _check_kind(value: Any) -> None:
    if value is not None and not isinstance(value, dict):
        raise ConfigError([("", f"couldn't get version/kind; the file must hold one {KIND} object")])
    kind, version = ((value or {}).get(name) or "" for name in ("kind", "apiVersion"))
    starts = f"a file starts with apiVersion: {API_VERSION} and kind: {KIND}"
    if kind == "Policy":
        text = f'no kind "Policy" is registered for version "{version}": Policy files are not supported, {starts}'
        raise ConfigError([("", text)])
    if not kind:
        raise ConfigError([("", f"Object 'Kind' is missing: {starts}")])
    if not version:
        raise ConfigError([("", f"Object 'apiVersion' is missing: {starts}")])
    if (version, kind) != (API_VERSION, KIND):
        raise ConfigError([("", f'no kind "{kind}" is registered for version "{version}": {starts}')])


def _decoded_arguments(path: str, plugin: str, args: Any, errors: _Errors) -> Object:
    where = f"decoding .{path}"
    decoding = f"{where}: decoding args for plugin {plugin}"
    if args is None:
        return {}
    if not isinstance(args, dict):
        errors.add(f"{path}.args", f"{decoding}: couldn't get version/kind; must be an object")
        return {}
    kind, version = args.get("kind") or f"{plugin}Args", args.get("apiVersion") or API_VERSION
    if kind != f"{plugin}Args":
        group = API_VERSION.partition("/")[0]
        text = f"args for plugin {plugin} were not of type {plugin}Args.{group}, got {kind}.{group}"
        errors.add(f"{path}.args.kind", f"{where}: {text}")
    elif version != API_VERSION:
        errors.add(f"{path}.args.apiVersion", f'{decoding}: no kind "{kind}" is registered for version "{version}"')
    decoder = Decoder()
    given = decoder.decode(args, arguments.KINDS[plugin].struct)
    for field, text in decoder.wrong:
        errors.add(f"{path}.args.{field}", f"{decoding}: {text}")
    for field in decoder.unknown:
        text = f'{_STRICT}: {where}: {_STRICT}: decoding args for plugin {plugin}: {_STRICT}: unknown field "{field}"'
        errors.add(f"{path}.args.{field}", text)
    return {name: value for name, value in given.items() if name not in ("apiVersion", "kind")}


def _configuration(given: Object, missing: Collection[str]) -> SchedulerConfiguration:
    """Fill in the defaults; those of arguments in place."""
    election, connection = given.get("leaderElection") or {}, given.get("clientConnection") or {}
    profiling: bool = given.get("enableProfiling", True)
    found = given["profiles"] = given.get("profiles") or [{}]
    if len(found) == 1:
        found[0].setdefault("schedulerName", "default-scheduler")
    return SchedulerConfiguration(
        parallelism=given.get("parallelism", 16),
        leader_election=LeaderElection(
            leader_elect=election.get("leaderElect", True),
            lease_duration=election.get("leaseDuration") or 15.0,
            renew_deadline=election.get("renewDeadline") or 10.0,
            retry_period=election.get("retryPeriod") or 2.0,
            resource_lock=election.get("resourceLock") or "leases",
            resource_name=election.get("resourceName") or "kube-scheduler",
            resource_namespace=election.get("resourceNamespace") or "kube-system",
        ),
        client_connection=ClientConnection(
            kubeconfig=connection.get("kubeconfig", ""),
            accept_content_types=connection.get("acceptContentTypes", ""),
            content_type=connection.get("contentType") or "application/vnd.kubernetes.protobuf",
            qps=connection.get("qps") or 50.0,
            burst=connection.get("burst") or 100,
        ),
        enable_profiling=profiling,
        enable_contention_profiling=given.get("enableContentionProfiling", profiling),
        percentage_of_nodes_to_score=given.get("percentageOfNodesToScore", 0),
        pod_initial_backoff_seconds=given.get("podInitialBackoffSeconds", 1),
        pod_max_backoff_seconds=given.get("podMaxBackoffSeconds", 10),
        delay_cache_until_active=given.get("delayCacheUntilActive", False),
        profiles=tuple(_profile(each, missing) for each in found),
    )


def _profile(given: Object, missing: Collection[str]) -> Profile:
    sets = {point: _plugin_set(each) for point, each in (given.get("plugins") or {}).items()}
    args: dict[str, Any] = {}
    for config in given.get("pluginConfig") or ():
        name = config.get("name", "")
        args[name] = config.setdefault("args", {})
        if name in arguments.KINDS:
            arguments.KINDS[name].default(args[name])
    found = Profile(
        scheduler_name=given.get("schedulerName", ""),
        percentage_of_nodes_to_score=given.get("percentageOfNodesToScore"),
        plugins=profiles.with_defaults(sets, missing),
        args=args,
    )
    for name in profiles.needed(found):
        if name in arguments.KINDS and name not in args:
            args[name] = {}
            arguments.KINDS[name].default(args[name])
    return found


def _plugin_set(given: Object) -> PluginSet:
    return PluginSet(
        enabled=tuple(
            EnabledPlugin(each.get("name", ""), each.get("weight", 0)) for each in given.get("enabled") or ()
        ),
        disabled=tuple(each.get("name", "") for each in given.get("disabled") or ()),
    )


def _problems(found: SchedulerConfiguration, given: Object, missing: Collection[str]) -> Iterator[FieldError]:
    if found.client_connection.burst < 0:
        yield invalid("clientConnection.burst", found.client_connection.burst, "must be non-negative")
    yield from _election_problems(found.leader_election)
    if found.parallelism <= 0:
        yield invalid("parallelism", found.parallelism, "should be an integer value greater than zero")
    seen = set()
    for index, (profile, raw) in enumerate(zip(found.profiles, given["profiles"], strict=True)):
        path = f"profiles[{index}]"
        yield from _profile_problems(path, profile, raw, missing)
        if profile.scheduler_name in seen:
            yield duplicate(f"{path}.schedulerName", profile.scheduler_name)
        seen.add(profile.scheduler_name)
    yield from _queue_sort_problems(found.profiles)
    yield from _percentage_problems("percentageOfNodesToScore", found.percentage_of_nodes_to_score)
    if found.pod_initial_backoff_seconds <= 0:
        yield invalid("podInitialBackoffSeconds", found.pod_initial_backoff_seconds, "must be greater than 0")
    if found.pod_max_backoff_seconds < found.pod_initial_backoff_seconds:
        text = "must be greater than or equal to PodInitialBackoffSeconds"
        yield invalid("podMaxBackoffSeconds", found.pod_max_backoff_seconds, text)
    if given.get("extenders"):
        yield forbidden("extenders", "scheduler extenders are not supported")


def _election_problems(given: LeaderElection) -> Iterator[FieldError]:
    if not given.leader_elect:
        return
    periods = {
        "leaseDuration": given.lease_duration,
        "renewDeadline": given.renew_deadline,
        "retryPeriod": given.retry_period,
    }
    for name, seconds in periods.items():
        if seconds <= 0:
            yield invalid(f"leaderElection.{name}", durations.text(seconds), "must be greater than zero")
    if given.lease_duration <= given.renew_deadline:
        shown = durations.text(given.renew_deadline)
        yield invalid("leaderElection.leaseDuration", shown, "must be greater than `RenewDeadline`")
    if given.resource_lock != "leases":
        text = 'resourceLock value must be "leases"'
        yield invalid("leaderElection.resourceLock", given.resource_lock, text)


def _percentage_problems(path: str, percentage: int | None) -> Iterator[FieldError]:
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid(path, percentage, "not in valid range [0-100]")


def _profile_problems(path: str, profile: Profile, given: Object, missing: Collection[str]) -> Iterator[FieldError]:
    if not profile.scheduler_name:
        yield required(f"{path}.schedulerName")
    yield from _percentage_problems(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
    for point, plugins in (given.get("plugins") or {}).items():
        for index, each in enumerate(plugins.get("enabled") or ()):
            below = f"{path}.plugins.{point}.enabled[{index}]"
            yield from _name_problems(below, each.get("name", ""), missing)
            if point in _POD_GROUP_POINTS:
                yield forbidden(below, "pod groups are not supported")
    seen = set()
    for index, config in enumerate(given.get("pluginConfig") or ()):
        below, name = f"{path}.pluginConfig[{index}]", config.get("name", "")
        if name in seen:
            yield duplicate(below, name)
        seen.add(name)
        yield from _name_problems(below, name, missing)
        if name in arguments.KINDS:
            yield from arguments.KINDS[name].problems(f"{below}.args", config["args"])
        elif not isinstance(config.get("args", {}), dict):
            yield invalid(f"{below}.args", config["args"], "must be an object")


def _name_problems(path: str, name: str, missing: Collection[str]) -> Iterator[FieldError]:
    if name in _REMOVED_PLUGINS:
        yield invalid(
            path, name, f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")'
        )
    elif name in missing:
        yield invalid(path, name, "this plugin of kube-scheduler is not supported")


def _queue_sort_problems(found: tuple[Profile, ...]) -> Iterator[FieldError]:
    first = found[0].plugins["queueSort"]
    if len(first.enabled) > 1:
        path = "profiles[0].plugins.queueSort.Enabled"
        yield invalid(path, len(first.enabled), "only one queue sort plugin can be enabled")
    name = first.enabled[0].name if first.enabled else ""
    for index, profile in enumerate(found[1:], start=1):
        own = profile.plugins["queueSort"]
        if own != first:
            yield invalid(f"profiles[{index}].plugins.queueSort", _shown(own), "must be the same for all profiles")
        if name in profile.args and profile.args[name] != found[0].args.get(name):
            path = f"profiles[{index}].pluginConfig.args"
            yield invalid(path, profile.args[name], "queueSort must be the same for all profiles")


def _shown(plugins: PluginSet) -> Object:
    return {
        "Enabled": [{"Name": each.name, "Weight": each.weight} for each in plugins.enabled] or None,
        "Disabled": [{"Name": name, "Weight": 0} for name in plugins.disabled] or None,
    }
