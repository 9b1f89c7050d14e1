"""The chapters of `tollbar demo --gates`: the gate classes that ship with Tollbar, each by its example.

The third needs StatefulSets and who makes their Pods, so it is told on the real control plane only.
"""

from functools import partial
from typing import Final

from tollbar import wellknown
from tollbar.cli.demo.stage import (
    NAMESPACE,
    SECONDS,
    Stage,
    admitting,
    apply,
    delete,
    documents,
    expect,
    followed,
    is_ready,
    show_pods,
)
from tollbar.cli.waiting import Selection, Wanted, is_gone, until
from tollbar.decide.pods.events import PodEvent, gate_of
from tollbar.model import pods
from tollbar.model.objects import Object, annotations_of, key_of, metadata, spec
from tollbar.model.resources import EVENTS, NAMESPACES, PLACEMENT_RULES, POD_QUOTAS, PODS, STATEFUL_SETS
from tollbar.runtime.client import PatchType


async def quota(stage: Stage) -> None:
    stage.tell.chapter("Two cores for three Pods: a PodQuota lets the third wait")
    [wanted] = documents("pod-quota/quota.yaml")
    label = spec(wanted)["namespaceSelector"]["matchLabels"]
    await _label(stage, label)
    stage.tell.applied("pod-quota/quota.yaml")
    ready = {"Ready": is_ready}
    act = partial(apply, stage, "pod-quota/quota.yaml")
    _, _, seconds = await followed(stage, POD_QUOTAS, metadata(wanted)["name"], ready, act)
    stage.tell.proof(f"in force for the namespaces with label {_text(label)}: condition Ready", seconds["Ready"])
    await _is_asked(stage, "pod-quota/pod-a.yaml", wellknown.QUOTA_GATE)
    released: dict[str, Wanted] = {"released": partial(_is_without, wellknown.QUOTA_GATE)}
    for file in ("pod-quota/pod-a.yaml", "pod-quota/pod-b.yaml"):
        stage.tell.applied(file)
        [pod] = documents(file)
        _, _, seconds = await followed(stage, PODS, metadata(pod)["name"], released, partial(apply, stage, file))
        stage.tell.proof(f"{metadata(pod)['name']} fits, and is let go", seconds["released"])
    stage.tell.applied("pod-quota/pod-c.yaml")
    [held] = await apply(stage, "pod-quota/pod-c.yaml")
    note = await _held_for(stage, held, wellknown.QUOTA_GATE)
    stage.tell.proof(f'{metadata(held)["name"]} is held: "{note}"')
    stage.tell.deleted("pod-quota/pod-a.yaml")
    act_ = partial(delete, stage, "pod-quota/pod-a.yaml")
    _, _, seconds = await followed(stage, PODS, metadata(held)["name"], released, act_)
    stage.tell.proof("one ends, and it is let go", seconds["released"])
    await show_pods(stage)
    await _label(stage, dict.fromkeys(label))
    for file in ("pod-quota/pod-b.yaml", "pod-quota/pod-c.yaml", "pod-quota/quota.yaml"):
        await delete(stage, file)


async def placement(stage: Stage) -> None:
    stage.tell.chapter("PlacementRules keep Pods to a pool of nodes, whatever their authors know of its labels")
    stage.tell.applied("placement/rules.yaml")
    rules = documents("placement/rules.yaml")
    last = metadata(rules[-1])["name"]
    ready = {"Ready": is_ready}
    _, _, seconds = await followed(stage, PLACEMENT_RULES, last, ready, partial(apply, stage, "placement/rules.yaml"))
    stage.tell.proof("compiled and in force: condition Ready", seconds["Ready"])
    await _is_asked(stage, "placement/train.yaml", wellknown.PLACEMENT_GATE)
    stage.tell.applied("placement/batch.yaml")
    [batch] = await apply(stage, "placement/batch.yaml")
    expect(annotations_of(batch).get(wellknown.ANNOTATION_PLACEMENT), "Pod batch was not narrowed at its creation")
    stage.tell.proof(
        f"created with the node affinity of {annotations_of(batch)[wellknown.ANNOTATION_PLACEMENT]} in it:"
    )
    stage.tell.quote(*_requirements(batch))
    stage.tell.applied("placement/train.yaml")
    [train] = await apply(stage, "placement/train.yaml")
    note = await _held_for(stage, train, wellknown.PLACEMENT_GATE)
    stage.tell.proof(f'train has a claim that nobody knows yet, and is held: "{note}"')
    stage.tell.applied("placement/claim.yaml")
    narrowed: dict[str, Wanted] = {"narrowed": partial(_is_without, wellknown.PLACEMENT_GATE)}
    act = partial(apply, stage, "placement/claim.yaml")
    _, train, seconds = await followed(stage, PODS, metadata(train)["name"], narrowed, act)
    stage.tell.proof("let go and narrowed in one patch:", seconds["narrowed"])
    stage.tell.quote(*_requirements(train))
    for file in ("placement/batch.yaml", "placement/train.yaml", "placement/claim.yaml", "placement/rules.yaml"):
        await delete(stage, file)


async def ordinal(stage: Stage) -> None:
    stage.tell.chapter("StatefulSet new takes over from StatefulSet old, one ordinal at a time")
    if stage.replacing:
        stage.tell.line("This wants StatefulSets, which a control plane in memory has not: see --plane real.")
        return
    stage.tell.applied("ordered-migration/old.yaml")
    is_there: dict[str, Wanted] = {"Ready": is_ready}
    _, _, seconds = await followed(stage, PODS, "old-1", is_there, partial(apply, stage, "ordered-migration/old.yaml"))
    stage.tell.proof("old-1 is Ready, and so is old-0 before it", seconds["Ready"])
    stage.tell.applied("ordered-migration/new.yaml")
    is_held: dict[str, Wanted] = {"held": lambda found: wellknown.ORDINAL_GATE in pods.gate_names(found or {})}
    new = partial(apply, stage, "ordered-migration/new.yaml")
    _, held, _ = await followed(stage, PODS, "new-0", is_held, new)
    note = await _held_for(stage, held, wellknown.ORDINAL_GATE)
    stage.tell.proof(f'new-0 is held: "{note}"')
    stage.tell.command("kubectl scale statefulset/old --replicas=0")
    fewer: Object = {"spec": {"replicas": 0}}
    scale = partial(stage.client.patch, STATEFUL_SETS, "old", fewer, namespace=NAMESPACE, patch_type=PatchType.MERGE)
    _, _, seconds = await followed(stage, PODS, "new-1", is_there, scale)
    stage.tell.proof("new-0 was let go when old-0 was gone, and new-1 when new-0 was Ready", seconds["Ready"])
    await show_pods(stage)
    for file in ("ordered-migration/new.yaml", "ordered-migration/old.yaml"):
        await delete(stage, file)
    gone = Selection(PODS, NAMESPACE, "metadata.name=new-0")
    await until(stage.client, gone, is_gone, timeout=SECONDS, what="new-0 is gone")


CHAPTERS: Final = (quota, placement, ordinal)


async def _label(stage: Stage, labels: Object) -> None:
    body: Object = {"metadata": {"labels": labels}}
    await stage.client.patch(NAMESPACES, NAMESPACE, body, patch_type=PatchType.MERGE)


async def _is_asked(stage: Stage, file: str, gate: str) -> None:
    """Wait until the API server asks the webhook about the gate."""
    await admitting(stage, file, lambda pod: gate in pods.gate_names(pod), f"Pods do not get the gate {gate}")


async def _held_for(stage: Stage, pod: Object, gate: str) -> str:
    """What an Event says of the Pod's gate, which it has to have."""
    expect(gate in pods.gate_names(pod), f"Pod {key_of(pod).name} was not held by {gate}")
    about = f"regarding.name={key_of(pod).name},reason={PodEvent.SCHEDULING_HELD}"
    event = Selection(EVENTS, NAMESPACE, about)

    def says(found: Object | None) -> bool:
        return gate_of(str((found or {}).get("note")))[0] == gate

    with stage.tell.waiting("a Pod that waits is told why after two seconds, not before"):
        what = f"the event of {key_of(pod).name} about {gate}"
        told = await until(stage.client, event, says, timeout=SECONDS, what=what)
    return str((told or {})["note"])


def _requirements(pod: Object) -> list[str]:
    affinity = spec(pod)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return [
        f"{each['key']} {each['operator']} {', '.join(each.get('values') or ())}"
        for term in affinity["nodeSelectorTerms"]
        for each in term["matchExpressions"]
    ]


def _is_without(gate: str, pod: Object | None) -> bool:
    return pod is not None and gate not in pods.gate_names(pod)


def _text(labels: Object) -> str:
    return ", ".join(f"{name}={value}" for name, value in labels.items())
