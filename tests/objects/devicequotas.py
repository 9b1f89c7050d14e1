"""What claims ask for, and how many devices of each class a ResourceQuota counts for that."""

from typing import Any, Final

from tollbar.model.objects import Object

DEVICES: Final = ".deviceclass.resource.k8s.io/devices"


def exactly(device_class: str, name: str = "a", **more: Any) -> Object:
    return {"name": name, "exactly": {"deviceClassName": device_class, "allocationMode": "ExactCount", **more}}


def first_of(*alternatives: tuple[str, int | str], name: str = "a") -> Object:
    """Classes, each with a count or the mode All."""
    found = [
        {
            "name": f"o{place}",
            "deviceClassName": device_class,
            **(
                {"allocationMode": count}
                if isinstance(count, str)
                else {"allocationMode": "ExactCount", "count": count}
            ),
        }
        for place, (device_class, count) in enumerate(alternatives)
    ]
    return {"name": name, "firstAvailable": found}


COUNTED: Final[dict[str, tuple[list[Object], dict[str, int]]]] = {
    "nothing": ([], {}),
    "one": ([exactly("gpu", count=1)], {"gpu": 1}),
    "several": ([exactly("gpu", count=3)], {"gpu": 3}),
    "requests add up": (
        [exactly("gpu", count=3), exactly("gpu", "b", count=2), exactly("nic", "c", count=1)],
        {"gpu": 5, "nic": 1},
    ),
    "all devices": ([exactly("gpu", allocationMode="All")], {"gpu": 32}),
    "alternatives of several classes": ([first_of(("gpu", 1), ("nic", 4))], {"gpu": 1, "nic": 4}),
    "the greatest alternative of a class": ([first_of(("gpu", 1), ("gpu", 3), ("gpu", 2))], {"gpu": 3}),
    "all devices as an alternative": ([first_of(("gpu", 2), ("gpu", "All"))], {"gpu": 32}),
    "alternatives beside a request": ([first_of(("gpu", 2)), exactly("gpu", "b", count=1)], {"gpu": 3}),
}
"""Requests of a claim, and the devices by class."""
