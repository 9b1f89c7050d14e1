"""Kubeconfig files for one server and one bearer token."""

import base64
from pathlib import Path
from typing import Any

import yaml

from tollbar.runtime import files


def config(*, server: str, authority: bytes, token: str) -> dict[str, Any]:
    """A kubeconfig's content; authority is PEM."""
    name = "tollbar"
    data = base64.b64encode(authority).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": data}}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def with_token(original: dict[str, Any], token: str, name: str) -> dict[str, Any]:
    """The same cluster for another user: `original` has one context, as `kubectl config view --minify` prints it."""
    context = original["contexts"][0]["context"]
    return {
        **original,
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": context["cluster"], "user": name}}],
        "current-context": name,
    }


def write(path: Path, content: dict[str, Any]) -> Path:
    """Write a kubeconfig whole, so that only its owner can read it; where it exists, it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, yaml.safe_dump(content, sort_keys=False).encode(), 0o600)
    return path
