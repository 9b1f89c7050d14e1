"""The framework of one profile: runs its plugins at each extension point, as framework.Framework of kube-scheduler.

A plugin that raises, or returns what its extension point does not allow, ends the cycle of this one Pod with an Error.
The class has a base for each part of a cycle, in a module of its own; none overrides a method of another:

- `instrumented.py`: the plugins of the profile, and how one of them is called and timed
- `filtering.py`: PreFilter, AddPod, RemovePod, Filter, Filter with nominated Pods, PostFilter
- `masks.py`: Filter for all Nodes at once, which kube-scheduler does not have
- `scoring.py`: PreScore, Score, NormalizeScore
- `binding.py`: Reserve, Unreserve, Permit, WaitOnPermit, PreBindPreFlight, PreBind, Bind, PostBind

Source: pkg/scheduler/framework/runtime/framework.go.
"""

from tollbar.scheduler.framework.binding import Binding
from tollbar.scheduler.framework.masks import FilteringByMasks
from tollbar.scheduler.framework.scoring import Scoring


class Framework(FilteringByMasks, Scoring, Binding):
    """All extension points of a profile.

    The plugins of the profile run one another by its handle, and find there the Pods that are being bound.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.handle.runner = self
        self.handle.waiting_pods = self.in_binding.waiting
        self.handle.pods_in_pre_bind = self.in_binding.pre_binding
