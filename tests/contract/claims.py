"""ResourceClaims as rows send them, and what rows compare of a refusal."""

from typing import Any

from contract.api import Answer
from contract.objects import made

from tollbar.model.objects import Object
from tollbar.model.resources import RESOURCE_CLAIMS

REQUEST = {"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}
RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "pool", "device": "gpu-0"}
ALLOCATION = {"devices": {"results": [RESULT]}}


def claim(*requests: Object, **metadata: Any) -> Object:
    wanted = {"devices": {"requests": list(requests or (REQUEST,))}}
    return made(RESOURCE_CLAIMS, "gpu", metadata=metadata, spec=wanted)


def causes(answer: Answer) -> Any:
    """Of a refusal (field, message), without the values that it quotes."""
    return [(field, text) for _, field, text in answer.refusal().causes]
