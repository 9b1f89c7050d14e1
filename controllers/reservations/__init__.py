"""Reservations: keeps a ResourceClaim for a workload while its Pods come and go; makes claims for WorkloadClaims.

Works beside kube-controller-manager's claim controller and in its place.  Hazard: down, claims stay as they are: the
devices of a deleted workload are kept until this is back, and a claim whose last Pod goes before it was pinned loses
its devices; doubled, the second write of a pair is a conflict or says what is there; behind, the same as down.
"""
