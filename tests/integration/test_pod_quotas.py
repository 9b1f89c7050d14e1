"""PodQuotas on a real API server: it refuses what our parser refuses."""

from typing import Any

import pytest
from integration.dryrun import is_accepted

from tollbar.api.quotas import PodQuota, parse_quota
from tollbar.model.resources import POD_QUOTAS
from tollbar.runtime.client import Client

pytestmark = pytest.mark.usefixtures("definitions")

CPU = {"cpu": "2"}
SPECS: dict[str, dict[str, Any]] = {
    "one limit": {"limits": CPU},
    "every form of a limit": {
        "limits": {"pods": 3, "cpu": "1500m", "memory": "2.5Gi", "example.com/gpu": "1e2", "a": "+1"}
    },
    "a limit of nothing": {"limits": {"cpu": "0", "pods": 0}},
    "devices": {
        "limits": {
            "gpu.example.com.deviceclass.resource.k8s.io/devices": 4,
            "deviceclass.resource.kubernetes.io/gpu.example.com": "4",
        }
    },
    "requests as a ResourceQuota has them": {"limits": {"cpu": "2", "requests.example.com/gpu": "1"}},
    "limits as a ResourceQuota has them": {"limits": {"limits.cpu": "1"}},
    "resources that only begin like these": {
        "limits": {"limits.example.com/gpu": "1", "requests.gpu.deviceclass.resource.k8s.io/devices": "1"}
    },
    "no limits": {},
    "limits of nothing": {"limits": {}},
    "less than nothing": {"limits": {"cpu": "-1"}},
    "a number less than nothing": {"limits": {"pods": -1}},
    "no quantity": {"limits": {"cpu": "much"}},
    "a fraction that is a number": {"limits": {"cpu": 1.5}},
    "a resource with a space": {"limits": {"a b": "1"}},
    "a resource in two domains": {"limits": {"a.dev/b/c": "1"}},
    "namespaces and Pods": {
        "limits": CPU,
        "namespaceSelector": {"matchLabels": {"team": "red"}},
        "podSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
    },
    "a selector without values": {
        "limits": CPU,
        "podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
    },
    "fair": {"limits": CPU, "sharing": "Fair", "patience": "1m30s"},
    "another order": {"limits": CPU, "sharing": "fair"},
    "no patience": {"limits": CPU, "patience": "0s"},
    "patience without a unit": {"limits": CPU, "patience": "10"},
    "an unknown field": {"limits": CPU, "hard": CPU},
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
async def test_the_server_and_the_parser_are_of_one_mind(admin: Client, spec: dict[str, Any]) -> None:
    wanted = {**POD_QUOTAS.type_meta, "metadata": {"name": "tried"}, "spec": spec}
    accepted = await is_accepted(admin, POD_QUOTAS.path(), wanted)
    assert isinstance(parse_quota(wanted), PodQuota) is accepted
