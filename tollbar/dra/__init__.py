"""Dynamic Resource Allocation: the devices of a cluster, and which of them the claims of a Pod get.

    from tollbar.dra import AllocatedState, Allocator, Inventory

    allocator = Allocator(Inventory(resource_slices), AllocatedState(), {"gpu": device_class})
    found = allocator.allocate(node, [claim])

`found` is a list of allocations, None if the claims do not fit on the Node, or Failed with a message.
"""

from tollbar.dra.allocator import Allocation, Allocator, Failed
from tollbar.dra.features import Features
from tollbar.dra.inventory import Inventory
from tollbar.dra.selectors import Selectors
from tollbar.dra.state import AllocatedState

__all__ = ["AllocatedState", "Allocation", "Allocator", "Failed", "Features", "Inventory", "Selectors"]
