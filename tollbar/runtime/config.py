"""The configuration file of every process, as an API type: `config.tollbar.dev/v1alpha1`, kind Configuration.

Flags override single fields.  Durations are parsed into seconds, addresses into `Address`; selectors stay plain dicts
for `tollbar.model.selectors`.

Invariants: an unknown or ill-typed field is an error; all errors are reported at once, each with its path and a
sentence; every field is used by at least one process.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError

from tollbar import wellknown
from tollbar.model import names, selectors
from tollbar.model.certificates import AUTHORITY_LIFETIME, LEAF_LIFETIME
from tollbar.model.objects import Object

API_VERSION: Final = f"config.{wellknown.GROUP}/{wellknown.VERSION}"
KIND: Final = "Configuration"

_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3}
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:h|ms|m|s))+")
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s)")
_ADDRESS: Final = re.compile(r"(?P<host>[^:\[\]]*|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")


class ConfigError(Exception):
    """The configuration cannot be used.  `errors` holds (field path, sentence) pairs; no path means the whole file."""

    def __init__(self, errors: tuple[tuple[str, str], ...]) -> None:
        super().__init__("\n".join(f"{path}: {sentence}" if path else sentence for path, sentence in errors))
        self.errors = errors


class Address(NamedTuple):
    """Where a server listens; an empty host means every interface, port 0 any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def _duration(value: object) -> float:
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        raise ValueError("must be a duration such as 15s, 500ms or 1m30s")
    return round(sum(float(number) * _UNITS[unit] for number, unit in _DURATION_PART.findall(value)), 6)


def _duration_text(seconds: float) -> str:
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"


def _address(value: object) -> Address:
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match["port"]) > 65535:
        raise ValueError("must be an address such as :8080, 127.0.0.1:8080 or [::1]:8080")
    return Address(match["host"].strip("[]"), int(match["port"]))


def _names(value: object) -> tuple[str, ...]:
    found = value.split(",") if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(each, str) and each.strip() for each in found):
        raise ValueError("must be a list of names")
    return tuple(dict.fromkeys(each.strip() for each in found))


def _selector(value: object) -> Object:
    if not isinstance(value, dict):
        raise ValueError("must be a label selector with matchLabels or matchExpressions")
    if unknown := sorted(str(key) for key in value if key not in ("matchLabels", "matchExpressions")):
        # A misspelt field would otherwise select every namespace.
        raise PydanticCustomError("selector", "unknown field", {"below": f".{unknown[0]}"})
    for error in selectors.validate(value, path=""):
        raise PydanticCustomError("selector", "{text}", {"text": error.message, "below": error.field})
    return value


def _valid(problems_of: Callable[[str], list[str]]) -> AfterValidator:
    def check(value: str) -> str:
        if problems := problems_of(value):
            raise ValueError(problems[0])
        return value

    return AfterValidator(check)


Seconds = Annotated[float, PlainValidator(_duration), PlainSerializer(_duration_text)]
Listen = Annotated[Address, PlainValidator(_address), PlainSerializer(str)]
Selector = Annotated[dict[str, Any], PlainValidator(_selector)]
Port = Annotated[int, Field(ge=1, le=65535)]


class _Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=to_camel, use_attribute_docstrings=True
    )


class LeaderElection(_Section):
    """A Lease in the system namespace.  The three periods are those of client-go's leader election."""

    enabled: bool = True
    """Whether the controllers hold the Lease while they work, as several replicas need.  The webhook gates Pods only
    while it is renewed; with false, always."""
    lease_name: Annotated[str, _valid(names.dns_subdomain)] = "tollbar-controllers"
    """Name of the Lease; the Role in the manifests names it."""
    lease_duration: Seconds = 15.0
    """How long after the last renewal another replica takes the Lease over."""
    renew_deadline: Seconds = 10.0
    """How long a leader goes on without a successful renewal.  Then it finishes what it has begun, for half of what is
    left of leaseDuration, and is a standby again."""
    retry_period: Seconds = 2.0
    """How often the leader renews the Lease, and the others look whether it is free."""


class Health(_Section):
    """Probes: /healthz and /readyz."""

    bind_address: Listen = Address("", 8081)
    """Address to listen on, as HOST:PORT; an empty host means every interface."""


class MetricsEndpoint(_Section):
    """The endpoint /metrics; its port is not that of the probes, so that a NetworkPolicy can tell them apart."""

    bind_address: Listen = Address("", 8080)
    """Address to listen on, as HOST:PORT; an empty host means every interface."""
    secure: bool = False
    """Whether /metrics is served over TLS, and only to those whom the API server lets `get` this path; needs the rights
    of the component metrics-auth, and an address other than the probes'."""


class Webhook(_Section):
    """The admission server.  Without files it makes its own certificate (see `certificates`)."""

    host: str = ""
    """Which address to listen on; empty means every interface."""
    port: Port = 9443
    """Which port to listen on."""
    cert_file: str = ""
    """Serving certificate, PEM; read again when it changes.  Empty, with `keyFile`: the webhook makes its own."""
    key_file: str = ""
    """Its private key, PEM."""
    client_ca_file: Annotated[str, Field(alias="clientCAFile")] = ""
    """CAs, PEM: only clients with a certificate that one of them has signed are served.  Empty serves everybody."""


class Certificates(_Section):
    """The authority that signs the webhook's certificates, in the Secret tollbar-webhook-ca of the system namespace."""

    managed: bool = True
    """Whether the controllers make and renew it, and write it to Tollbar's webhook configurations."""
    authority_lifetime: Seconds = AUTHORITY_LIFETIME
    """How long an authority is valid; a new one is made after two thirds of it."""
    certificate_lifetime: Seconds = LEAF_LIFETIME
    """How long a serving certificate is valid; each replica of the webhook renews its own after two thirds of it."""
    pre_publication: Seconds = 60.0
    """How long a new authority is in the webhook configurations before certificates are signed with it, so that every
    API server has seen it by then."""


class ClientConnection(_Section):
    """Limits on calls to the API server."""

    qps: Annotated[float, Field(ge=0, le=100_000)] = 0.0
    """Calls a second; 0 sets no limit and leaves throttling to the API server (API Priority and Fairness)."""
    burst: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Calls that may be made at once above that rate; 0 means twice the qps."""
    in_flight: Annotated[int, Field(ge=1, le=1024)] = 128
    """How many calls may be under way at the same time, watches not counted."""


class Log(_Section):
    """The log, which goes to standard error."""

    format: Literal["text", "json"] = "text"
    """Text as klog writes it, or JSON."""
    verbosity: Annotated[int, Field(ge=0, le=10)] = 0
    """4 and more shows debug lines."""


def _all_but_system(data: dict[str, Any]) -> Object:
    excluded = sorted({"kube-system", str(data.get("system_namespace"))})
    return {"matchExpressions": [{"key": wellknown.NAMESPACE_NAME_LABEL, "operator": "NotIn", "values": excluded}]}


class Configuration(_Section):
    """Everything that can be set.  Field names in files and paths are camelCase."""

    api_version: Literal["config.tollbar.dev/v1alpha1"]
    kind: Literal["Configuration"]
    admission: Literal["Auto", "Gate", "Never"] = "Auto"
    """When the webhook gates a Pod.  Auto: when a rule cannot be decided yet.  Gate: every Pod with claims or extended
    resources, and every Pod in the scope of a rule about Pods alone.  Never: no Pod; the webhook then adds no
    tolerations either, and all of them come late, from the controllers."""
    claims: Literal["Complement", "Replace", "Disabled"] = "Complement"
    """What the controllers do with ResourceClaims.  Complement: they reserve claims for workloads, beside
    kube-controller-manager's ResourceClaim controller.  Replace: they also do the work of that controller, which must
    be off.  Disabled: nothing."""
    on_unjustified_toleration: Literal["Report", "Evict"] = "Report"
    """What the controllers do about a Pod that runs with other claims than those by which it got its tolerations.
    Report: an Event, a line in the log and a metric.  Evict: they evict it as well, for which they need the right.
    With `claims: Disabled` they do not look at bound Pods."""
    gates: Annotated[tuple[str, ...], PlainValidator(_names), PlainSerializer(list)] = ()
    """Gate classes that run beside Tollbar's own gate, by the names of their entry points (group tollbar.gates)."""
    system_namespace: Annotated[str, _valid(names.dns_label)] = wellknown.SYSTEM_NAMESPACE
    """The namespace in which Tollbar runs: its Lease and its Secret are there, and Pods in it are left alone.  In a
    Pod, the environment variable POD_NAMESPACE sets it."""
    managed_namespace_selector: Selector = Field(default_factory=_all_but_system)
    """Label selector (metav1.LabelSelector): Pods in other namespaces are left alone.  By default all namespaces but
    kube-system and the system namespace."""
    workers: Annotated[int, Field(ge=1, le=256)] = 64
    """How many Pods the controllers work on at the same time."""
    cel_engine: Literal["compiled", "closures"] = "compiled"
    """Which engine evaluates expressions.  Both give the same answers; closures is slower and generates no code."""
    leader_election: LeaderElection = LeaderElection()
    health: Health = Health()
    metrics: MetricsEndpoint = MetricsEndpoint()
    webhook: Webhook = Webhook()
    certificates: Certificates = Certificates()
    client_connection: ClientConnection = ClientConnection()
    log: Log = Log()


def load(path: Path | str | None, overrides: Mapping[str, object]) -> Configuration:
    """The configuration in a file (defaults without one), with single fields replaced.

    `overrides` maps camelCase paths (`leaderElection.enabled`) to values as the file would have them; None means that
    the flag was not given.  Raises ConfigError.
    """
    document = {"apiVersion": API_VERSION, "kind": KIND} if path is None else _read(Path(path))
    for field, value in overrides.items():
        if value is not None:
            _set(document, field, value)
    try:
        configuration = Configuration.model_validate(document)
    except ValidationError as error:
        raise ConfigError(_explained(error)) from None
    election, certificates = configuration.leader_election, configuration.certificates
    problems = (
        *_contradictions(election),
        *_one_address(configuration),
        *_unusable_files(configuration.webhook),
        *_unusable_periods(certificates),
    )
    if problems:
        raise ConfigError(problems)
    return configuration


def dump(configuration: Configuration) -> str:
    """The YAML file that would load as this configuration, every field written out."""
    text: str = yaml.safe_dump(configuration.model_dump(mode="json", by_alias=True), sort_keys=False)
    return text


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError((("", f"cannot read {path}: {reason}"),)) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError((("", f"{path}{where}: not YAML: {getattr(error, 'problem', error)}"),)) from None
    if not isinstance(document, dict):
        raise ConfigError((("", f"{path}: must hold one {KIND} object"),))
    return document


def _set(document: dict[str, Any], field: str, value: object) -> None:
    *parents, last = field.split(".")
    for parent in parents:
        below = document.setdefault(parent, {})
        if not isinstance(below, dict):
            return  # the file is wrong here, which validation reports with the path
        document = below
    document[last] = value


def _contradictions(election: LeaderElection) -> tuple[tuple[str, str], ...]:
    """Periods that would not protect the lease, checked as client-go does."""
    found = []
    if election.lease_duration < 1 or election.lease_duration % 1:
        found.append(("leaderElection.leaseDuration", "must be whole seconds, at least 1s"))
    if election.renew_deadline >= election.lease_duration:
        found.append(("leaderElection.renewDeadline", "must be less than leaseDuration"))
    if not 0 < election.retry_period < election.renew_deadline:
        found.append(("leaderElection.retryPeriod", "must be more than 0s and less than renewDeadline"))
    return tuple(found)


def _one_address(configuration: Configuration) -> Iterator[tuple[str, str]]:
    if configuration.metrics.secure and configuration.metrics.bind_address == configuration.health.bind_address:
        yield "metrics.bindAddress", "must differ from health.bindAddress with metrics.secure: probes show no token"


def _unusable_files(webhook: Webhook) -> Iterator[tuple[str, str]]:
    if bool(webhook.cert_file) != bool(webhook.key_file):
        missing = "keyFile" if webhook.cert_file else "certFile"
        yield f"webhook.{missing}", "must be set with the other: a certificate and its key go together"


def _unusable_periods(certificates: Certificates) -> Iterator[tuple[str, str]]:
    """Periods in which a new authority could not take over before the old one ends."""
    if not certificates.certificate_lifetime:
        yield "certificates.certificateLifetime", "must be more than 0s"
    if certificates.pre_publication >= certificates.authority_lifetime / 3:
        yield "certificates.prePublication", "must be less than a third of authorityLifetime"


def _explained(error: ValidationError) -> tuple[tuple[str, str], ...]:
    details = error.errors(include_url=False, include_input=False)
    # pydantic also reports a default that depends on other fields when one of those is wrong.
    return tuple(_explain(one) for one in details if one["type"] != "default_factory_not_called")


def _explain(error: ErrorDetails) -> tuple[str, str]:
    context = error.get("ctx", {})
    path = ".".join(str(part) for part in error["loc"]) + str(context.get("below", ""))
    match error["type"]:
        case "extra_forbidden":
            return path, "unknown field" + _suggestion(error["loc"])
        case "missing":
            return path, f"must be set; a file starts with apiVersion: {API_VERSION} and kind: {KIND}"
        case "literal_error":
            return path, f"must be {context['expected']}"
        case "value_error":
            return path, str(context["error"])
        case "model_type":
            return path, "must be a mapping of fields"
        case _:
            return path, error["msg"].replace("Input should", "must", 1)


def _suggestion(location: tuple[int | str, ...]) -> str:
    section: Any = Configuration
    for part in location[:-1]:
        section = next(f.annotation for f in section.model_fields.values() if f.alias == part)
    known = [field.alias for field in section.model_fields.values()]
    close = difflib.get_close_matches(str(location[-1]), known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known here are {', '.join(sorted(known))}"
