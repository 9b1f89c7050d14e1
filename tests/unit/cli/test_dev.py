"""What `tollbar dev` shows and how it removes what it applied; the rest is tried on a real API server."""

import asyncio
import io
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from rich.console import Console

from tollbar.api import crds
from tollbar.cli import applying
from tollbar.cli.applying import Applied
from tollbar.cli.dev import Terminal
from tollbar.model.objects import Object
from tollbar.model.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from tollbar.runtime.errors import NotFound


def test_every_line_names_its_source() -> None:
    file = io.StringIO()
    terminal = Terminal(Console(file=file, width=20))
    terminal.say("a line that is longer than the terminal")
    terminal.line("webhook", "[bold]no markup[/bold]")
    terminal.line("controllers", "")

    assert file.getvalue() == (
        "dev         | a line that is longer than the terminal\nwebhook     | [bold]no markup[/bold]\ncontrollers | \n"
    )


class Forgetful:
    """An API server that forgets CustomResourceDefinitions being deleted until they change once more."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}

    async def get(self, resource: Resource, name: str) -> Object:
        if resource is CUSTOM_RESOURCE_DEFINITIONS and name in self.objects:
            return self.objects[name]
        raise NotFound(404, "NotFound", name)

    async def list(self, resource: Resource, _namespace: str = "", *, field_selector: str = "", **_: Any) -> Object:
        name = field_selector.removeprefix("metadata.name=")
        items = [self.objects[name]] if resource is CUSTOM_RESOURCE_DEFINITIONS and name in self.objects else []
        return {"metadata": {"resourceVersion": "1"}, "items": items}

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[Any, None]:
        await asyncio.Event().wait()
        yield None

    async def patch(self, _resource: Resource, name: str, body: Object, **_: Any) -> Object:
        found = self.objects.get(name)
        if found is None:
            established = {"conditions": [{"type": "Established", "status": "True"}]}
            found = self.objects[name] = {**body, "status": established}
        elif found["metadata"].get("deletionTimestamp"):
            del self.objects[name]
        return found

    async def delete(self, _resource: Resource, name: str, **_: Any) -> None:
        self.objects[name]["metadata"]["deletionTimestamp"] = "now"


async def test_a_definition_whose_deletion_hangs_is_changed_until_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "_TOUCH_SECONDS", 0.01)
    server = Forgetful()
    applied = Applied(server, lambda _line: None)
    await applied.apply_definitions()
    there = set(server.objects)

    await applied.undo()

    assert (there, server.objects) == ({crd["metadata"]["name"] for crd in crds.all_crds()}, {})
