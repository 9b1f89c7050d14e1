"""Events, Leases, ConfigMaps and webhook configurations.

Source: k8s.io/kubernetes/pkg/apis/{core,coordination,admissionregistration}/validation.
"""

import re
from typing import Final

from tollbar import cel
from tollbar.devplane.embedded.validation.texts import IMMUTABLE, each, members, named, wrong
from tollbar.model import names, selectors
from tollbar.model.fields import FieldError
from tollbar.model.objects import Object, metadata, spec

CONDITION_ENV: Final = cel.Env((("object", "dyn"), ("oldObject", "dyn"), ("request", "dyn")))
"""The variables of `matchConditions`."""

_CORE_NAMES: Final = {"note": "message", "regarding": "involvedObject", "reportingController": "reportingComponent"}
"""Names of fields of events.k8s.io in core/v1, which the errors name."""
_LONGEST: Final = {"action": 128, "reason": 128, "note": 1024, "reportingInstance": 128}
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
    return [
        wrong(f"spec.{name}", spec(lease)[name], detail)
        for name, least, detail in (
            ("leaseDurationSeconds", 1, "must be greater than 0"),
            ("leaseTransitions", 0, "must be greater than or equal to 0"),
        )
        if spec(lease).get(name, least) < least
    ]


def validate_binding(binding: Object) -> list[FieldError]:
    """A RoleBinding or a ClusterRoleBinding."""
    errors = members("roleRef", binding.get("roleRef") or {}, "kind", "name")
    return errors + each("subjects", binding.get("subjects"), lambda path, one: members(path, one, "kind", "name"))


def validate_binding_update(new: Object, old: Object) -> list[FieldError]:
    if new.get("roleRef") == old.get("roleRef"):
        return []
    return [wrong("roleRef", new.get("roleRef"), "cannot change roleRef")]


def validate_webhooks(configuration: Object) -> list[FieldError]:
    """A MutatingWebhookConfiguration or a ValidatingWebhookConfiguration."""
    return each("webhooks", configuration.get("webhooks"), _webhook)


def _webhook(path: str, webhook: Object) -> list[FieldError]:
    errors = named(f"{path}.name", webhook.get("name"), names.dns_subdomain)
    for member in ("namespaceSelector", "objectSelector"):
        errors += selectors.validate(webhook.get(member) or {}, path=f"{path}.{member}")
    return errors + each(f"{path}.matchConditions", webhook.get("matchConditions"), _condition)


def _condition(path: str, condition: Object) -> list[FieldError]:
    errors = named(f"{path}.name", condition.get("name"), names.qualified_name)
    try:
        cel.engine().compile(condition.get("expression") or "", CONDITION_ENV)
    except cel.CelError as error:
        errors.append(wrong(f"{path}.expression", condition.get("expression"), f"compilation failed: {error}"))
    return errors
