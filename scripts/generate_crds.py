"""Write the manifests that come from code: CRDs and webhook configurations.

    python scripts/generate_crds.py            write them
    python scripts/generate_crds.py --check    exit 1 and name those that are not up to date

The code is `tollbar.api`; what it gives is also what `tollbar dev` applies, so that both stay one.
"""

import sys
from pathlib import Path
from typing import Any, Final

import yaml

MANIFESTS: Final = Path(__file__).resolve().parent.parent / "manifests"
HEADER: Final = "# Generated from tollbar.api by scripts/generate_crds.py: change it there.\n"


def generated() -> dict[str, str]:
    """Text by path under manifests/."""
    from tollbar.api import crds, webhooks

    client = webhooks.at_service()
    conditions = webhooks.pod_conditions(pod_rules=True)
    values: dict[str, Any] = {
        f"base/crds/tollbar.dev_{crd['spec']['names']['plural']}.yaml": crd for crd in crds.all_crds()
    }
    values |= {
        # The prefix that makes the names sort last is put on by manifests/identity, after any namePrefix.
        "base/webhooks/pods.yaml": webhooks.pods_configuration(client, name="tollbar-pods"),
        "base/webhooks/rules.yaml": webhooks.rules_configuration(client, name="tollbar-rules"),
        "components/pod-rules/match-conditions.yaml": [
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


def main(arguments: list[str]) -> int:
    check = arguments == ["--check"]
    if arguments and not check:
        sys.stderr.write(__doc__ or "")
        return 2
    stale = []
    for name, text in generated().items():
        path = MANIFESTS / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for name in stale:
        sys.stdout.write(f"manifests/{name}: {'not up to date' if check else 'written'}\n")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.path.insert(0, str(MANIFESTS.parent))
    raise SystemExit(main(sys.argv[1:]))
