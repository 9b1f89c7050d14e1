"""Which optional parts of Dynamic Resource Allocation are in use."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Features:
    """Kubernetes' feature gates that change what the allocator does, with the defaults of Kubernetes 1.37.

    `binding_conditions` stands for DRADeviceBindingConditions together with DRAResourceClaimDeviceStatus.  The alpha
    features DRADeviceCompatibilityGroups, DRADerivedAttributes and DRAOptionalNodeOperations count as off: a slice
    with compatibility groups is ignored, which makes its pool incomplete, and a request with derived attributes is an
    error.
    """

    admin_access: bool = True
    binding_conditions: bool = True
    consumable_capacity: bool = True
    device_taints: bool = True
    fractional_capacity_range: bool = True
    list_type_attributes: bool = False
    partitionable_devices: bool = True
    prioritized_list: bool = True
