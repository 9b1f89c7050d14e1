"""One profile at work: its plugins at each extension point, by the contracts of kube-scheduler's framework.

A plugin that raises, or answers what its point does not allow, ends this one Pod's cycle with an Error.

- `instrumented.py`: one plugin is called
- `filtering.py`: PreFilter, Filter and PostFilter
- `masks.py`: Filter for all Nodes at once
- `scoring.py`: PreScore, Score and NormalizeScore
- `binding.py`: Reserve, Permit, PreBind, Bind and PostBind

Source: pkg/scheduler/framework/runtime/framework.go.
"""

from tollbar.scheduler.framework.binding import Binding
from tollbar.scheduler.framework.masks import FilteringByMasks
from tollbar.scheduler.framework.scoring import Scoring


class Framework(FilteringByMasks, Scoring, Binding):
    """All extension points of a profile.  Its handle lets plugins run the others, and see the Pods in binding."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.handle.runner = self
        self.handle.waiting_pods = self.in_binding.waiting
        self.handle.pods_in_pre_bind = self.in_binding.pre_binding
