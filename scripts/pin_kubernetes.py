"""Make an older control plane buildable: write the module file of one Kubernetes release beside the module of ours.

Needs Go on PATH and the network, e.g. `python scripts/pin_kubernetes.py 1.35.4`.  The files that it writes,
`older/MINOR.mod` and `older/MINOR.sum`, are committed.
"""

import json
import re
import subprocess
import sys
from typing import Any

from tollbar.devplane.binaries import DEFAULT_VERSION
from tollbar.devplane.real.build import MODULE, OVERLAY, module_file


def main(arguments: list[str]) -> int:
    release = arguments[0] if arguments else ""
    minor = release.rpartition(".")[0]
    if len(arguments) != 1 or not re.fullmatch(r"\d+\.\d+\.\d+", release) or minor == DEFAULT_VERSION:
        sys.stderr.write(f"usage: pin_kubernetes.py RELEASE, e.g. 1.35.4, of a minor older than {DEFAULT_VERSION}\n")
        return 2
    target = module_file(minor)
    theirs = _go("mod", "edit", "-json", _go("mod", "download", "-json", f"k8s.io/kubernetes@v{release}")["GoMod"])
    target.write_text(first_draft(release, theirs))
    # The draft names what decides all other versions; tidy adds them.
    command = ["go", "mod", "tidy", f"-modfile={target}", f"-overlay={OVERLAY}"]
    return subprocess.run(command, cwd=MODULE, check=False).returncode  # noqa: S603 - our own arguments


def first_draft(release: str, theirs: dict[str, Any]) -> str:
    """The module file that asks for this Kubernetes and for the versions that its own module file asks for."""
    staging = f"v0.{release.partition('.')[2]}"
    required = {each["Path"]: each["Version"] for each in theirs["Require"]}
    replaced = [each["Old"]["Path"] for each in theirs["Replace"]]
    etcd = required["go.etcd.io/etcd/server/v3"]
    return "\n".join(
        [
            "module tollbar.dev/controlplane",
            f"go {theirs['Go']}",
            f"require (\n\tgo.etcd.io/etcd/server/v3 {etcd}\n\tk8s.io/kubernetes v{release}\n)",
            "replace (",
            *(f"\t{path} => {path} {staging}" for path in replaced),
            ")\n",
        ]
    )


def _go(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(["go", *arguments], cwd="/", capture_output=True, text=True, check=True)  # noqa: S603, S607
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
