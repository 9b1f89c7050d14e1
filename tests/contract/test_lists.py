"""Lists: label and field selectors, pages, versions."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from contract.api import Answer, Api, Refusal, told
from contract.definitions import definition, established
from contract.objects import WIDGETS, config_map, lease, made, pod
from contract.tables import Rows, last, rows

from tollbar.model.objects import Object
from tollbar.model.resources import CONFIG_MAPS, LEASES, PODS
from tollbar.runtime.client import PatchType

LABELS: dict[str, Object] = {
    "a": {"tier": "web", "team": "ml"},
    "b": {"tier": "db"},
    "c": {"tier": "web", "old": ""},
    "d": {"team": "ml"},
}


def labelled(api: Api, selector: str) -> str:
    """The names, in one word, that the selector finds among LABELS."""
    for name, labels in LABELS.items():
        api.create(config_map(name, labels={"group": "labels", **labels})).accepted()
    return "".join(api.names(CONFIG_MAPS, labelSelector=f"group=labels,{selector}" if selector else "group=labels"))


LABEL_SELECTORS: Rows = {
    "nothing more": (lambda api: labelled(api, ""), "abcd"),
    "a value": (lambda api: labelled(api, "tier=web"), "ac"),
    "a value, written twice as equal": (lambda api: labelled(api, "tier==web"), "ac"),
    "another value, or none at all": (lambda api: labelled(api, "tier!=web"), "bd"),
    "one of several": (lambda api: labelled(api, "tier in (web,db)"), "abc"),
    "none of several, or none at all": (lambda api: labelled(api, "tier notin (web)"), "bd"),
    "the label at all": (lambda api: labelled(api, "team"), "ad"),
    "without the label": (lambda api: labelled(api, "!team"), "bc"),
    "an empty value": (lambda api: labelled(api, "old="), "c"),
    "all of several": (lambda api: labelled(api, "tier=web,team"), "a"),
    "a selector that cannot be parsed": (
        lambda api: api.page(CONFIG_MAPS, labelSelector="tier in web"),
        Refusal(
            400,
            "BadRequest",
            "unable to parse requirement: found 'web' expected: '('",
        ),
    ),
}


@rows(LABEL_SELECTORS)
def test_label_selectors(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def selected(api: Api, selector: str) -> str:
    """Names, in one word, of the Pods that it finds: a held, b free, c bound, d bound and failed."""
    api.create(pod("example.com/a", name="a")).accepted()
    for name in "bcd":
        api.create(pod(name=name)).accepted()
    for name in "cd":
        api.bind(name, node=api.namespace).accepted()
    api.patch(PODS, "d", {"status": {"phase": "Failed"}}, PatchType.MERGE, "status").accepted()
    return "".join(api.names(PODS, fieldSelector=selector))


FIELD_SELECTORS: Rows = {
    "without a Node": (lambda api: selected(api, "spec.nodeName="), "ab"),
    "with a Node": (lambda api: selected(api, "spec.nodeName!="), "cd"),
    "with this Node": (lambda api: selected(api, f"spec.nodeName={api.namespace}"), "cd"),
    "by phase": (lambda api: selected(api, "status.phase=Failed"), "d"),
    "not by phase": (lambda api: selected(api, "status.phase!=Failed,spec.nodeName!="), "c"),
    "by scheduler and name": (lambda api: selected(api, "spec.schedulerName=nobody,metadata.name=b"), "b"),
    "by namespace": (lambda api: selected(api, f"metadata.namespace={api.namespace}"), "abcd"),
    "by another namespace": (lambda api: selected(api, "metadata.namespace=other"), ""),
    "with a label selector": (
        lambda api: last(
            api.create(pod(name="x", metadata={"labels": {"of": "x"}})),
            api.create(pod(name="y", metadata={"labels": {"of": "y"}})),
            api.names(PODS, fieldSelector="spec.nodeName=", labelSelector="of=y"),
        ),
        ["y"],
    ),
    "by gate, which is not possible": (
        lambda api: api.page(PODS, fieldSelector="spec.schedulingGates=example.com/a"),
        Refusal(400, "BadRequest", "field label not supported: spec.schedulingGates"),
    ),
    "by a Pod's field of a ConfigMap": (
        lambda api: api.page(CONFIG_MAPS, fieldSelector="spec.nodeName="),
        Refusal(
            400,
            "BadRequest",
            '"spec.nodeName" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ),
    "a ConfigMap by name": (
        lambda api: last(api.create(config_map()), api.names(CONFIG_MAPS, fieldSelector="metadata.name=map")),
        ["map"],
    ),
    "a selector that cannot be parsed": (
        lambda api: api.page(PODS, fieldSelector="spec.nodeName"),
        Refusal(400, "BadRequest", "invalid selector: 'spec.nodeName'; can't understand 'spec.nodeName'"),
    ),
}


@rows(FIELD_SELECTORS)
def test_field_selectors(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def five(api: Api) -> list[Answer]:
    return [api.create(lease(name, labels={"group": "pages"})).accepted() for name in "abcde"]


def pages(api: Api, limit: str, between: Callable[[], Any] = lambda: None, **query: str) -> list[Object]:
    """All pages of the five; `between` is called after the first."""
    five(api)
    found = [api.page(LEASES, limit=limit, **query).accepted().object]
    between()
    while token := found[-1]["metadata"].get("continue"):
        found.append(api.page(LEASES, **{"limit": limit, "continue": token}, **query).accepted().object)
    return found


def words(found: list[Object]) -> list[str]:
    """Of each page, the names in one word."""
    return ["".join(each["metadata"]["name"] for each in page["items"]) for page in found]


PAGES: Rows = {
    "in the order of names, the last one shorter": (lambda api: words(pages(api, "2")), ["ab", "cd", "e"]),
    "exactly full": (lambda api: words(pages(api, "5")), ["abcde"]),
    "no limit is one page": (lambda api: last(five(api), words([api.page(LEASES).object])), ["abcde"]),
    "all of one version": (
        lambda api: len({page["metadata"]["resourceVersion"] for page in pages(api, "2")}),
        1,
    ),
    "what is created between pages is not in them": (
        lambda api: words(pages(api, "2", lambda: api.create(lease("dd")))),
        ["ab", "cd", "e"],
    ),
    "what is deleted between pages still is": (
        lambda api: words(pages(api, "2", lambda: api.delete(LEASES, "d"))),
        ["ab", "cd", "e"],
    ),
    "what remains is counted": (
        lambda api: [page["metadata"].get("remainingItemCount") for page in pages(api, "2")],
        [3, 1, None],
    ),
    "what remains is not counted with a selector": (
        lambda api: [
            page["metadata"].get("remainingItemCount") for page in pages(api, "2", labelSelector="group=pages")
        ],
        [None, None, None],
    ),
    "a token that is none": (
        lambda api: (
            (answer := api.page(LEASES, **{"limit": "2", "continue": "nonsense"}).refusal())
            and (answer.code, answer.reason, answer.message.split(":")[0])
        ),
        (400, "BadRequest", "invalid continue token"),
    ),
}


@rows(PAGES)
def test_pages(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


GADGETS = replace(WIDGETS, plural="gadgets", kind="Gadget")


def aged(token: str) -> str:
    """The same token, for a state that is long gone: of version 1."""
    found = json.loads(base64.urlsafe_b64decode(f"{token}==="))
    is_padded = isinstance(found, list)
    older = [1, *found[1:]] if is_padded else {**found, "rv": 1}
    text = base64.urlsafe_b64encode(json.dumps(older).encode()).decode()
    return text if is_padded else text.rstrip("=")


@pytest.mark.usefixtures("compacted")
def test_the_rest_of_a_list_whose_state_is_gone_shows_what_is_there_by_then(api: Api) -> None:
    def following(token: str) -> Answer:
        return api.page(GADGETS, **{"limit": "2", "continue": token})

    with established(api, definition(GADGETS)):
        for name in "abcde":
            api.request("POST", api.path(GADGETS), made(GADGETS, name)).accepted()
        expired = following(aged(api.page(GADGETS, limit="2")["metadata.continue"]))
        api.delete(GADGETS, "d").accepted()
        for name in ("aa", "f"):
            api.request("POST", api.path(GADGETS), made(GADGETS, name)).accepted()
        rest = following(expired["metadata.continue"]).accepted()
        end = following(rest["metadata.continue"]).accepted()
    refusal = expired.refusal()
    said = "The provided continue parameter is too old to display a consistent list result."
    assert (refusal.code, refusal.reason, refusal.message[: len(said)]) == (410, "Expired", said)
    assert (words([rest.object, end.object]), end["metadata.continue"] or "") == (["ce", "f"], "")


def version_of_the_list(api: Api) -> bool:
    """A list is at least as new as what was written before it."""
    return int(api.create(config_map()).version) <= int(api.page(CONFIG_MAPS).version)


LISTS: Rows = {
    "kind and version are the list's": (
        lambda api: last(
            api.create(config_map()),
            (found := api.page(CONFIG_MAPS)) and (found["kind"], found["apiVersion"]),
        ),
        ("ConfigMapList", "v1"),
    ),
    "its items have neither": (
        lambda api: last(
            api.create(config_map()),
            set(api.page(CONFIG_MAPS)["items.0"]) & {"kind", "apiVersion"},
        ),
        set(),
    ),
    "nothing is an empty list": (lambda api: api.page(CONFIG_MAPS, labelSelector="group=none")["items"], []),
    "it has a version": (version_of_the_list, True),
    "of all namespaces": (
        lambda api: last(
            api.create(config_map()),
            api.namespace
            in {
                each["metadata"]["namespace"]
                for each in api.request("GET", CONFIG_MAPS.path(), fieldSelector="metadata.name=map")["items"]
            },
        ),
        True,
    ),
    "of a namespace that does not exist": (
        lambda api: api.request("GET", CONFIG_MAPS.path("none"))["items"],
        [],
    ),
    "of any version that the server has at hand": (
        lambda api: last(api.create(config_map()), api.page(CONFIG_MAPS, resourceVersion="0")),
        200,
    ),
    "of a version that does not exist yet": (
        lambda api: (
            (answer := api.page(CONFIG_MAPS, resourceVersion="99999999")).code,
            answer.refusal().message.split(",")[0],
            answer.refusal().causes,
            answer.retry_after,
        ),
        (
            504,
            "Timeout: Too large resource version: 99999999",
            (("ResourceVersionTooLarge", "", "Too large resource version"),),
            "1",
        ),
    ),
}


@rows(LISTS)
def test_lists(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want
