"""Whether the API server would store an object, which stores nothing."""

import orjson

from tollbar.model.objects import Object
from tollbar.runtime.client import Client
from tollbar.runtime.errors import ApiError


async def is_accepted(admin: Client, path: str, obj: Object) -> bool:
    """All of its fields have to be known."""
    try:
        await admin.raw("POST", path, orjson.dumps(obj), query={"dryRun": "All", "fieldValidation": "Strict"})
    except ApiError as error:
        if error.status not in (400, 422):
            raise
        return False
    return True
