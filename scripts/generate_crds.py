"""Writes the manifests that come from code: CRDs and webhook configurations.

The code is `tollbar.api`, whose objects `tollbar dev` applies as well.
"""

from typing import Any, Final

import yaml
from generating import main

from tollbar.api import crds, webhooks

HEADER: Final = "# Generated from tollbar.api by scripts/generate_crds.py: change it there.\n"


def generated() -> dict[str, str]:
    """Text by path."""
    client = webhooks.at_service()
    conditions = webhooks.pod_conditions(pod_rules=True)
    values: dict[str, Any] = {
        f"manifests/base/crds/tollbar.dev_{crd['spec']['names']['plural']}.yaml": crd for crd in crds.all_crds()
    }
    values |= {
        # The prefix that makes the names sort last is put on by manifests/identity, after any namePrefix.
        "manifests/base/webhooks/pods.yaml": webhooks.pods_configuration(client, name="tollbar-pods"),
        "manifests/base/webhooks/rules.yaml": webhooks.rules_configuration(client, name="tollbar-rules"),
        "manifests/components/pod-rules/match-conditions.yaml": [
            {"op": "replace", "path": "/webhooks/0/matchConditions", "value": conditions}
        ],
    }
    return {path: HEADER + as_yaml(value) for path, value in values.items()}


def as_yaml(value: Any) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)
    return text


class _Dumper(yaml.SafeDumper):
    """No anchors, and CEL expressions without doubled quotes: for people."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        if len(text) > 80:
            return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else ">")
        return self.represent_scalar("tag:yaml.org,2002:str", text, style='"' if "'" in text else None)


_Dumper.add_representer(str, _Dumper.represent_text)


if __name__ == "__main__":
    raise SystemExit(main(generated()))
