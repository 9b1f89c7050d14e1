"""When a rule is in force at admission: what the webhook's configuration says about the Pods that are sent."""

import pytest

from controllers.rules.reconcile import is_prefiltered
from tollbar import wellknown
from tollbar.model.objects import Object
from tollbar.runtime.caches import Caches
from tollbar.runtime.store import Store
from tollbar.views import kinds


def configuration(*conditions: str) -> Object:
    return {
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": wellknown.WEBHOOK_CONFIGURATION, "uid": "u"},
        "webhooks": [
            {"name": "pods", "matchConditions": [{"name": name, "expression": "true"} for name in conditions]}
        ],
    }


def webhooks(*configurations: Object) -> Store:
    store = Caches().store(kinds.WEBHOOKS)
    store.replace(configurations)
    return store


PREFILTERED: dict[str, tuple[Store, bool]] = {
    "no configuration": (webhooks(), False),
    "no webhooks": (webhooks({**configuration(), "webhooks": None}), False),
    "no conditions": (webhooks(configuration()), False),
    "other conditions": (webhooks(configuration("not-bound")), False),
    "the condition about devices": (webhooks(configuration("not-bound", "devices")), True),
}


@pytest.mark.parametrize(("given", "want"), PREFILTERED.values(), ids=PREFILTERED)
def test_is_prefiltered(given: Store, want: bool) -> None:
    assert is_prefiltered(given) is want
