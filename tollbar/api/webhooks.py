"""The admission webhook configurations: which requests the API server sends to the webhook process, and how.

`manifests/base/webhooks` is generated from here; `tollbar dev` registers the same configurations by URL.  Selectors and
match conditions leave out the Pods that Tollbar has nothing to do with, so that they cost no call.

Both configurations fail open (`Ignore`, 2 s): while the webhook is down, Pods are created without a decision and the
controllers add their tolerations later; rules are stored unchecked and get a condition.  The Pod configuration's name
sorts last, because the API server calls mutating webhooks by name, and does not call one again whose conditions were
false at first when a later webhook adds a claim.
"""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from tollbar import wellknown
from tollbar.model.objects import Object
from tollbar.model.resources import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS, Resource

PODS_NAME: Final = "zz-tollbar-pods"
RULES_NAME: Final = "zz-tollbar-rules"
PODS_PATH: Final = "/mutate-pods"
CLAIMS_PATH: Final = "/mutate-claims"
RULES_PATH: Final = "/validate-rules"
GATES_NAME: Final = "zz-tollbar-gates"
_GATES_PATH: Final = "/gates/"
SERVICE_NAME: Final = "tollbar-webhook"
TIMEOUT_SECONDS: Final = 2

ClientConfig: TypeAlias = Callable[[str], Object]
"""From a path to the `clientConfig` that reaches it."""

_ASKS: Final = "has(c.resources) && has(c.resources.requests) && c.resources.requests.exists(k, k.contains('/'))"
WANTS_DEVICES: Final = (
    "has(object.spec.resourceClaims)"
    f" || object.spec.containers.exists(c, {_ASKS})"
    f" || (has(object.spec.initContainers) && object.spec.initContainers.exists(c, {_ASKS}))"
)
_FROM_DAEMONSET: Final = (
    "has(object.metadata.ownerReferences)"
    " && object.metadata.ownerReferences.exists(o, o.kind == 'DaemonSet' && o.apiVersion.startsWith('apps/'))"
)
_MIRROR: Final = f"has(object.metadata.annotations) && '{wellknown.MIRROR_ANNOTATION}' in object.metadata.annotations"
_CARRIES_OURS: Final = (
    f"(has(object.metadata.annotations) && '{wellknown.ANNOTATION_PROVENANCE}' in object.metadata.annotations)"
    f" || (has(object.metadata.labels) && '{wellknown.LABEL_GATE}' in object.metadata.labels)"
    f" || (has(object.spec.schedulingGates) && object.spec.schedulingGates.exists(g, g.name == '{wellknown.GATE}'))"
)

NOT_OURS: Final[Sequence[tuple[str, str]]] = (
    ("not-bound", "!has(object.spec.nodeName)"),
    ("not-mirror", f"!({_MIRROR})"),
    ("not-daemonset", f"!({_FROM_DAEMONSET})"),
)
"""Match conditions for every Pod: it has no Node, and is neither a mirror Pod nor one of a DaemonSet."""

DEVICES: Final = ("devices", f"{WANTS_DEVICES} || {_CARRIES_OURS}")
"""The Pod has claims or requests an extended resource, or a client wrote Tollbar's gate, label or annotation.  The
component `pod-rules` leaves it out, for rules that read nothing but the Pod."""

CLAIMS: Final[Sequence[tuple[str, str]]] = (
    (
        "not-extended-resource",
        (
            "!has(object.metadata.annotations)"
            f" || !('{wellknown.EXTENDED_RESOURCE_CLAIM_ANNOTATION}' in object.metadata.annotations)"
        ),
    ),
)
"""Match conditions for claims and templates: kube-scheduler has chosen the devices of those for extended resources."""


def at_service(namespace: str = wellknown.SYSTEM_NAMESPACE) -> ClientConfig:
    """The webhook behind its Service, on port 443."""
    return lambda path: {"service": {"namespace": namespace, "name": SERVICE_NAME, "path": path}}


def at_url(base_url: str, ca_pem: bytes) -> ClientConfig:
    """The webhook at `base_url` (https://127.0.0.1:9443), with a certificate of this CA."""
    bundle = base64.b64encode(ca_pem).decode()
    return lambda path: {"url": base_url.rstrip("/") + path, "caBundle": bundle}


def pod_conditions(*, pod_rules: bool = False) -> list[Object]:
    """`matchConditions` for Pods; with `pod_rules`, also Pods without devices."""
    conditions = NOT_OURS if pod_rules else (*NOT_OURS, DEVICES)
    return [{"name": name, "expression": expression} for name, expression in conditions]


def pods_configuration(
    client_config: ClientConfig,
    *,
    name: str = PODS_NAME,
    pod_rules: bool = False,
) -> Object:
    """The MutatingWebhookConfiguration: creation of Pods, of ResourceClaims and of their templates."""
    pods = {
        **_webhook("pods.tollbar.dev", client_config(PODS_PATH)),
        **_created("", ["pods"], wellknown.SYSTEM_NAMESPACE),
        "matchConditions": pod_conditions(pod_rules=pod_rules),
    }
    claims = {
        **_webhook("claims.tollbar.dev", client_config(CLAIMS_PATH)),
        **_created("resource.k8s.io", ["resourceclaims", "resourceclaimtemplates"], wellknown.SYSTEM_NAMESPACE),
        "matchConditions": [{"name": name, "expression": expression} for name, expression in CLAIMS],
    }
    return _configuration(MUTATING_WEBHOOK_CONFIGURATIONS, name, pods, claims)


def is_of_pods(webhook: Object) -> bool:
    """Whether this webhook of a configuration of ours is asked about Pods, as one of a dump is, which has no rules."""
    rules = webhook.get("rules")
    return rules is None or any("pods" in (each.get("resources") or ()) for each in rules)


def gate_path(gate: str) -> str:
    """Where the webhook answers for a gate class: `/gates/example.com/zone`."""
    return _GATES_PATH + gate


def gates_of(configuration: Object) -> set[str]:
    """The gate classes that a webhook configuration asks about, by the paths of its webhooks."""
    clients = [webhook.get("clientConfig") or {} for webhook in configuration.get("webhooks") or ()]
    paths = [(each.get("service") or {}).get("path") or each.get("url") or "" for each in clients]
    return {gate for path in paths if (gate := path.partition(_GATES_PATH)[2])}


@dataclass(frozen=True, slots=True)
class GateWebhook:
    """What the API server is told of a gate class.

    `applies_to` is CEL over `object`, the Pod; `namespaces` are LabelSelectorRequirements of its Namespace.
    """

    gate: str
    applies_to: str = "true"
    fails_open: bool = True
    namespaces: Sequence[Object] = ()


def gates_configuration(
    client_config: ClientConfig,
    gates: Sequence[GateWebhook],
    *,
    namespace: str = wellknown.SYSTEM_NAMESPACE,
) -> Object:
    """The MutatingWebhookConfiguration with a webhook for each of these gate classes: creation of Pods.

    `namespace` is the one of the installation.  Its Pods are left out, because a webhook that fails closed would
    otherwise keep its own process from being started again.
    """
    found = []
    for each in gates:
        domain, _, local = each.gate.partition("/")
        conditions = [*NOT_OURS, ("applies", each.applies_to)]
        found.append(
            {
                **_webhook(f"{local.lower().replace('_', '-')}.gates.{domain}", client_config(gate_path(each.gate))),
                **_created("", ["pods"], namespace, *each.namespaces),
                "failurePolicy": "Ignore" if each.fails_open else "Fail",
                "matchConditions": [{"name": name, "expression": text} for name, text in conditions],
            }
        )
    return _configuration(MUTATING_WEBHOOK_CONFIGURATIONS, GATES_NAME, *found)


def rules_configuration(client_config: ClientConfig, *, name: str = RULES_NAME) -> Object:
    """The ValidatingWebhookConfiguration: TolerationRules, PlacementRules and SchedulingGates."""
    webhook = {
        **_webhook("rules.tollbar.dev", client_config(RULES_PATH)),
        "rules": [
            _rule(
                wellknown.GROUP,
                [wellknown.VERSION],
                ["CREATE", "UPDATE"],
                ["tolerationrules", "placementrules", "schedulinggates"],
                scope="Cluster",
            )
        ],
    }
    return _configuration(VALIDATING_WEBHOOK_CONFIGURATIONS, name, webhook)


def _webhook(name: str, client_config: Object) -> Object:
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": client_config,
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
    }


def _rule(group: str, versions: list[str], operations: list[str], resources: list[str], *, scope: str) -> Object:
    return {
        "apiGroups": [group],
        "apiVersions": versions,
        "operations": operations,
        "resources": resources,
        "scope": scope,
    }


def _created(group: str, resources: list[str], namespace: str, *more: Object) -> Object:
    """Creation of such objects, but in kube-system and in this namespace, which is the installation's own.

    `more` are requirements of the Namespace's labels.
    """
    not_skipped = {"key": wellknown.LABEL_SKIP, "operator": "NotIn", "values": ["true"]}
    return {
        "reinvocationPolicy": "IfNeeded",
        "rules": [_rule(group, ["v1"], ["CREATE"], resources, scope="Namespaced")],
        "namespaceSelector": {
            "matchExpressions": [
                {"key": wellknown.NAMESPACE_NAME_LABEL, "operator": "NotIn", "values": ["kube-system", namespace]},
                dict(not_skipped),
                *map(dict, more),
            ]
        },
        "objectSelector": {"matchExpressions": [not_skipped]},
    }


def _configuration(resource: Resource, name: str, *webhooks: Object) -> Object:
    return {
        **resource.type_meta,
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/name": "tollbar", "app.kubernetes.io/component": "webhook"},
        },
        "webhooks": list(webhooks),
    }
