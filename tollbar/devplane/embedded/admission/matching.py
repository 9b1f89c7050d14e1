"""Whether a webhook is called for a request: rules, selectors, match conditions.

matchPolicy Equivalent is Exact here: no built-in kind is served in two versions, and the versions of a
CustomResourceDefinition count as different kinds.
"""

from tollbar.devplane.embedded import matchconditions
from tollbar.devplane.embedded.access import among
from tollbar.devplane.embedded.errors import forbidden
from tollbar.devplane.embedded.requests import Write
from tollbar.devplane.embedded.storage import Storage
from tollbar.model import selectors
from tollbar.model.objects import Key, Object, labels_of
from tollbar.model.resources import NAMESPACES


def selected(storage: Storage, webhook: Object, write: Write, new: Object, old: Object | None) -> bool:
    """Whether the webhook's rules and selectors match."""
    if not any(_applies(rule, write) for rule in webhook.get("rules") or ()):
        return False
    labels = _labels_of_namespace(storage, write, new, old)
    if labels is not None and not selectors.matches(webhook.get("namespaceSelector") or {}, labels):
        return False
    objects = [each for each in (new, old) if each]
    return any(selectors.matches(webhook.get("objectSelector") or {}, labels_of(each)) for each in objects)


def _applies(rule: Object, write: Write) -> bool:
    res = write.kind.resource
    scope = rule.get("scope") or "*"
    return (
        among(write.operation, rule.get("operations"))
        and among(res.group, rule.get("apiGroups"))
        and among(res.version, rule.get("apiVersions"))
        and scope in ("*", "Namespaced" if res.namespaced else "Cluster")
        and any(_names(pattern, res.plural, write.subresource) for pattern in rule.get("resources") or ())
    )


def _names(pattern: str, plural: str, subresource: str) -> bool:
    """`pods` is the object, `pods/status` a subresource, `*/*` everything."""
    resource, _, sub = pattern.partition("/")
    return resource in ("*", plural) and (sub == subresource or sub == "*")


def _labels_of_namespace(storage: Storage, write: Write, new: Object, old: Object | None) -> dict[str, str] | None:
    """The labels that a namespaceSelector is matched with; None for cluster-scoped objects, which it always selects."""
    if write.kind.resource == NAMESPACES:
        return labels_of(new or old or {})
    if not write.key.namespace:
        return None
    namespace = storage.get(NAMESPACES, Key("", write.key.namespace))
    return dict(namespace.labels) if namespace else {}


def conditions_hold(webhook: Object, write: Write, request: Object) -> bool:
    """Whether every match condition is true.  Raises Refused when one fails and failurePolicy is Fail."""
    outcome = matchconditions.outcome(webhook, request)
    if isinstance(outcome, str) and webhook.get("failurePolicy") != "Ignore":
        raise forbidden(write.kind.resource.group, write.kind.resource.plural, write.key.name, outcome)
    return outcome is True
