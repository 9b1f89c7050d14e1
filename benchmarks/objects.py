"""What the workloads create: Pods held for a DeviceClass that does not exist yet, as the webhook leaves them."""

from typing import Final

from objects.builders import claim, device_class, toleration_rule
from planes.objects import RESERVED, a_pod, as_written

from tollbar.api.gates import shipped_gate
from tollbar.decide.pods import tolerations
from tollbar.decide.pods.tolerations import Addition
from tollbar.model.objects import Object, spec

RULE: Final = "late"


def rule() -> Object:
    """Gives one toleration to Pods with a claim for a class whose name begins with `late`."""
    wants = 'claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName.startsWith("late")))'
    return as_written(toleration_rule(RULE).cel(wants).giving(RESERVED))


def patient_gate() -> Object:
    """The shipped gate, but with a maxHold that is long enough to create thousands of held Pods."""
    gate = shipped_gate()
    return {**gate, "spec": {**spec(gate), "maxHold": "3h"}}


def late_class(name: str) -> Object:
    return as_written(device_class(name).selecting('device.driver == "gpu.example.com"'))


def claim_of(class_name: str, name: str, namespace: str) -> Object:
    return as_written(claim(name, namespace).request(class_name))


def plain_pod(name: str, namespace: str) -> Object:
    return as_written(a_pod(name, namespace))


def device_pod(name: str, namespace: str, claim_name: str) -> Object:
    return as_written(a_pod(name, namespace).claims(claim_name))


def template_pod(name: str, namespace: str, template: str) -> Object:
    """A Pod with a claim from a template, held by a gate that is not Tollbar's."""
    gated = a_pod(name, namespace).templates(template).but("spec.schedulingGates", [{"name": "example.com/wait"}])
    return as_written(gated)


def held_pod(name: str, namespace: str, claim_name: str) -> Object:
    return as_written(a_pod(name, namespace).claims(claim_name).gated())


def release(pod: Object) -> list[Object]:
    """The patch with which the controllers release this stored Pod."""
    added = Addition(RULE, 1, (RESERVED,))
    return list(tolerations.patch(pod, (added,), via="gate", gate="remove", fenced=True))
