"""Planes that serve PodGroups, and let them share claims (KEP-4671, KEP-5729): both feature gates are on."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final

from planes import scheduling
from tollbar.devplane.binaries import Binaries
from tollbar.devplane.layout import API_SERVER, CONTROLLER_MANAGER, SCHEDULER
from tollbar.devplane.real.components import Options
from tollbar.devplane.real.launcher import RealPlane

GATES: Final = "--feature-gates=GenericWorkload=true,DRAWorkloadResourceClaims=true"
SERVED: Final = "--runtime-config=scheduling.k8s.io/v1beta1=true"
FLAGS: Final = {
    API_SERVER: (GATES, SERVED),
    CONTROLLER_MANAGER: (GATES,),
    SCHEDULER: (GATES,),
}
NONE_BEFORE: Final = "no PodGroups in a beta version"


@contextmanager
def serving_pod_groups(binaries: Binaries, directory: Path) -> Iterator[RealPlane]:
    """With a scheduler."""
    with (
        RealPlane(binaries, directory, Options(scheduler=not scheduling.OURS, flags=FLAGS)) as plane,
        scheduling.in_place_of_kube_scheduler(plane) if scheduling.OURS else nullcontext(),
    ):
        yield plane
