"""Render manifests/install.yaml from manifests/overlays/default.

    python scripts/render_install.py            write it
    python scripts/render_install.py --check    exit 1 if it is not up to date

Needs kubectl (1.30 or newer) on PATH, or the one that $KUBECTL names.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

MANIFESTS: Final = Path(__file__).resolve().parent.parent / "manifests"
HEADER: Final = """\
# Tollbar, rendered from manifests/overlays/default by scripts/render_install.py.
#
#   kubectl apply --server-side -f install.yaml
#
# The image `tollbar:0.1.0` is built from the Dockerfile of this repository and is published nowhere.  See "Install" in
# README.md.
"""


def rendered() -> str:
    kubectl = os.environ.get("KUBECTL") or shutil.which("kubectl")
    if kubectl is None:
        raise SystemExit("render_install: kubectl is not on PATH")
    command = [kubectl, "kustomize", str(MANIFESTS / "overlays" / "default")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own arguments
    if done.returncode:
        raise SystemExit(f"render_install: {done.stderr.strip()}")
    return HEADER + done.stdout


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        sys.stderr.write(__doc__ or "")
        return 2
    target, text = MANIFESTS / "install.yaml", rendered()
    if target.exists() and target.read_text() == text:
        return 0
    if arguments:
        sys.stdout.write("manifests/install.yaml: not up to date\n")
        return 1
    target.write_text(text)
    sys.stdout.write("manifests/install.yaml: written\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
