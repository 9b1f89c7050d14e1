"""The webhook configurations: what the API server sends us, and the one place that says so."""

from pathlib import Path
from typing import Any

import yaml

from tollbar.api import webhooks

MANIFESTS = Path(__file__).parents[3] / "manifests"


def test_pods_by_url() -> None:
    found = webhooks.pods_configuration(webhooks.at_url("https://127.0.0.1:9443/", b"CA"))
    found["webhooks"] = found["webhooks"][:1]
    conditions = found["webhooks"][0].pop("matchConditions")
    assert (found, [condition["name"] for condition in conditions]) == (
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {
                "name": "zz-tollbar-pods",
                "labels": {"app.kubernetes.io/name": "tollbar", "app.kubernetes.io/component": "webhook"},
            },
            "webhooks": [
                {
                    "name": "pods.tollbar.dev",
                    "admissionReviewVersions": ["v1"],
                    "clientConfig": {"url": "https://127.0.0.1:9443/mutate-pods", "caBundle": "Q0E="},
                    "failurePolicy": "Ignore",
                    "sideEffects": "None",
                    "timeoutSeconds": 2,
                    "reinvocationPolicy": "IfNeeded",
                    "rules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE"],
                            "resources": ["pods"],
                            "scope": "Namespaced",
                        }
                    ],
                    "namespaceSelector": {
                        "matchExpressions": [
                            {
                                "key": "kubernetes.io/metadata.name",
                                "operator": "NotIn",
                                "values": ["kube-system", "tollbar-system"],
                            },
                            {"key": "tollbar.dev/skip", "operator": "NotIn", "values": ["true"]},
                        ]
                    },
                    "objectSelector": {
                        "matchExpressions": [{"key": "tollbar.dev/skip", "operator": "NotIn", "values": ["true"]}]
                    },
                }
            ],
        },
        ["not-bound", "not-mirror", "not-daemonset", "devices"],
    )


def test_claims_and_templates_have_the_selectors_of_pods() -> None:
    pods, claims = webhooks.pods_configuration(webhooks.at_service())["webhooks"]
    rules = {
        "apiGroups": ["resource.k8s.io"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["resourceclaims", "resourceclaimtemplates"],
        "scope": "Namespaced",
    }
    own = {"name": "claims.tollbar.dev", "rules": [rules], "matchConditions": claims["matchConditions"]}
    client = {"service": {**pods["clientConfig"]["service"], "path": "/mutate-claims"}}
    assert claims == {**pods, **own, "clientConfig": client}
    assert [condition["name"] for condition in claims["matchConditions"]] == ["not-extended-resource"]
    assert [webhooks.is_of_pods(each) for each in (pods, claims)] == [True, False]


def test_rules_by_service() -> None:
    found = webhooks.rules_configuration(webhooks.at_service())
    assert (found["metadata"]["name"], found["webhooks"]) == (
        "zz-tollbar-rules",
        [
            {
                "name": "rules.tollbar.dev",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "service": {"namespace": "tollbar-system", "name": "tollbar-webhook", "path": "/validate-rules"}
                },
                "failurePolicy": "Ignore",
                "sideEffects": "None",
                "timeoutSeconds": 2,
                "rules": [
                    {
                        "apiGroups": ["tollbar.dev"],
                        "apiVersions": ["v1alpha1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["tolerationrules", "placementrules", "schedulinggates"],
                        "scope": "Cluster",
                    }
                ],
            }
        ],
    )


def test_with_pod_rules_every_pod_comes_that_could_be_ours() -> None:
    names = [condition["name"] for condition in webhooks.pod_conditions(pod_rules=True)]
    assert names == ["not-bound", "not-mirror", "not-daemonset"]


def test_the_admission_policy_has_the_conditions_and_selectors_of_the_webhook() -> None:
    """But for what the webhook does beyond gating: it also looks at Pods that carry something of ours."""
    policy = next(iter(yaml.safe_load_all((MANIFESTS / "components/admission-policy/gate.yaml").read_text())))["spec"]
    webhook = webhooks.pods_configuration(webhooks.at_service())["webhooks"][0]
    conditions = [*webhooks.NOT_OURS, ("devices", webhooks.WANTS_DEVICES)]
    constraints = policy["matchConstraints"]
    assert (
        [(condition["name"], _words(condition["expression"])) for condition in policy["matchConditions"]],
        constraints["namespaceSelector"],
        constraints["objectSelector"],
    ) == (
        [(name, _words(expression)) for name, expression in conditions],
        webhook["namespaceSelector"],
        webhook["objectSelector"],
    )


def _words(expression: str) -> Any:
    return "".join(expression.split())
