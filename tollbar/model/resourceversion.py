"""resourceVersions as numbers that can be compared (KEP-5504)."""

import re
from typing import Final

from tollbar.model.objects import Object, metadata

_WELL_FORMED: Final = re.compile("[1-9][0-9]{0,255}")


def number(resource_version: str) -> int | None:
    """The number that a resourceVersion is: the greater one of two of the same resource is the newer one.

    None for what is not well-formed, a decimal number without leading zeros: "" and "0" are special values of lists and
    watches and no version of any object.  Source: k8s.io/apimachinery/pkg/util/resourceversion, which takes numbers of
    any length; here more than 256 digits are none.
    """
    return int(resource_version) if _WELL_FORMED.fullmatch(resource_version) else None


def of(obj: Object) -> int | None:
    """The number of an object's resourceVersion, or of a list's; None where it has none that is well-formed."""
    return number(metadata(obj).get("resourceVersion") or "")
