"""Flags of planes that serve PodGroups, and let them share claims (KEP-4671, KEP-5729): both feature gates are on."""

from typing import Final

from tollbar.devplane.layout import API_SERVER, CONTROLLER_MANAGER, SCHEDULER

GATES: Final = "--feature-gates=GenericWorkload=true,DRAWorkloadResourceClaims=true"
SERVED: Final = "--runtime-config=scheduling.k8s.io/v1beta1=true"
FLAGS: Final = {
    API_SERVER: (GATES, SERVED),
    CONTROLLER_MANAGER: (GATES,),
    SCHEDULER: (GATES,),
}
NONE_BEFORE: Final = "no PodGroups in a beta version"
