"""Events, Leases, ConfigMaps and webhook configurations.

Source: k8s.io/kubernetes/pkg/apis/{core,coordination,admissionregistration}/validation.
"""

import re
from typing import Any, Final
from urllib.parse import urlsplit

from tollbar import cel
from tollbar.devplane.embedded.validation.texts import IMMUTABLE, members, named, wrong
from tollbar.model import names, selectors
from tollbar.model.fields import FieldError, required, unsupported
from tollbar.model.objects import Object, metadata, spec

CONDITION_ENV: Final = cel.Env((("object", "dyn"), ("oldObject", "dyn"), ("request", "dyn")))
"""What `matchConditions` see."""

_CORE_NAMES: Final = {"note": "message", "regarding": "involvedObject", "reportingController": "reportingComponent"}
"""Names of fields of events.k8s.io in core/v1, by which immutable ones are refused."""
_LONGEST: Final = {"action": 128, "reason": 128, "note": 1024, "reportingInstance": 128}
_TIMEOUT_MAX: Final = 30
_KEY: Final = re.compile("[-._a-zA-Z0-9]+")
_NOT_A_KEY: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or"
    " 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def validate_event(event: Object) -> list[FieldError]:
    """A new Event of events.k8s.io."""
    errors = members("", event, "eventTime")
    controller = event.get("reportingController")
    errors += named("reportingController", controller, names.qualified_name)
    errors += members("", event, "reportingInstance", "action", "reason")
    for name, limit in _LONGEST.items():
        if len((event.get(name) or "").encode()) > limit:
            errors.append(wrong(_CORE_NAMES.get(name, name), "", f"can have at most {limit} characters"))
    if event.get("type") not in ("Normal", "Warning"):
        errors.append(wrong("type", "", f"has invalid value: {event.get('type') or ''}"))
    if not (event.get("regarding") or {}).get("namespace") and metadata(event).get("namespace") != "default":
        errors.append(wrong("involvedObject.namespace", "", "does not match event.namespace"))
    series = event.get("series")
    if series is not None and (series.get("count") or 0) < 2:
        errors.append(wrong("series.count", "", "should be at least 2"))
    return errors


def validate_event_update(new: Object, old: Object) -> list[FieldError]:
    """Only the series may change."""
    fixed = {*new, *old} - {"apiVersion", "kind", "metadata", "series"}
    return [
        wrong(_CORE_NAMES.get(name, name), new.get(name), IMMUTABLE)
        for name in sorted(fixed)
        if new.get(name) != old.get(name)
    ]


def validate_config_map(config_map: Object) -> list[FieldError]:
    """Of a ConfigMap or a Secret: the keys."""
    return [
        wrong(f"{member}[{key}]", key, _NOT_A_KEY)
        for member in ("data", "binaryData", "stringData")
        for key in config_map.get(member) or ()
        if not _KEY.fullmatch(key)
    ]


def validate_lease(lease: Object) -> list[FieldError]:
    errors = []
    for name, least, detail in (
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ):
        value = spec(lease).get(name)
        if value is not None and value < least:
            errors.append(wrong(f"spec.{name}", value, detail))
    return errors


def validate_binding(binding: Object) -> list[FieldError]:
    """A RoleBinding or a ClusterRoleBinding."""
    errors = members("roleRef", binding.get("roleRef") or {}, "kind", "name")
    for index, subject in enumerate(binding.get("subjects") or ()):
        errors += members(f"subjects[{index}]", subject, "kind", "name")
    return errors


def validate_binding_update(new: Object, old: Object) -> list[FieldError]:
    if new.get("roleRef") == old.get("roleRef"):
        return []
    return [wrong("roleRef", new.get("roleRef"), "cannot change roleRef")]


def validate_cluster_role(role: Object) -> list[FieldError]:
    errors = []
    for index, selector in enumerate((role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()):
        errors += selectors.validate(selector, path=f"aggregationRule.clusterRoleSelectors[{index}]")
    return errors


def validate_webhooks(configuration: Object) -> list[FieldError]:
    """A MutatingWebhookConfiguration or a ValidatingWebhookConfiguration."""
    errors = []
    for index, webhook in enumerate(configuration.get("webhooks") or ()):
        errors += _webhook(f"webhooks[{index}]", webhook)
    return errors


def _webhook(path: str, webhook: Object) -> list[FieldError]:
    errors = named(f"{path}.name", webhook.get("name"), names.dns_subdomain)
    if "v1" not in (webhook.get("admissionReviewVersions") or ()):
        errors.append(required(f"{path}.admissionReviewVersions", "must include v1"))
    for member, known in (
        ("sideEffects", ("None", "NoneOnDryRun")),
        ("failurePolicy", ("Fail", "Ignore")),
        ("matchPolicy", ("Equivalent", "Exact")),
        ("reinvocationPolicy", ("IfNeeded", "Never")),
    ):
        if webhook.get(member, known[0]) not in known or (member == "sideEffects" and member not in webhook):
            errors.append(unsupported(f"{path}.{member}", webhook.get(member) or "", known))
    if not 1 <= webhook.get("timeoutSeconds", 1) <= _TIMEOUT_MAX:
        detail = "the timeout value must be between 1 and 30 seconds"
        errors.append(wrong(f"{path}.timeoutSeconds", webhook["timeoutSeconds"], detail))
    for member in ("namespaceSelector", "objectSelector"):
        errors += selectors.validate(webhook.get(member) or {}, path=f"{path}.{member}")
    return errors + _client(f"{path}.clientConfig", webhook.get("clientConfig") or {}) + _conditions(path, webhook)


def _client(path: str, client: Object) -> list[FieldError]:
    if bool(client.get("url")) == bool(client.get("service")):
        return [required(path, "exactly one of url or service is required")]
    try:
        url = urlsplit(client.get("url") or "https://service")
    except ValueError as error:
        return [wrong(f"{path}.url", client["url"], f"{error}; desired format: https://host[/path]")]
    errors = []
    if url.scheme != "https":
        detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        errors.append(wrong(f"{path}.url", url.scheme, detail))
    if url.query:
        errors.append(
            wrong(f"{path}.url", url.query, "query parameters are not permitted; desired format: https://host[/path]")
        )
    return errors


def _conditions(path: str, webhook: Object) -> list[FieldError]:
    errors: list[Any] = []
    for index, condition in enumerate(webhook.get("matchConditions") or ()):
        where = f"{path}.matchConditions[{index}]"
        errors += named(f"{where}.name", condition.get("name"), names.qualified_name)
        try:
            cel.engine().compile(condition.get("expression") or "", CONDITION_ENV)
        except cel.CelError as error:
            errors.append(wrong(f"{where}.expression", condition.get("expression"), f"compilation failed: {error}"))
    return errors
