"""ResourceClaims in place of kube-controller-manager (`claims: Replace`): made from templates, reserved for Pods that
were bound without a scheduler, freed and deleted when their Pods are done.

Hazard: down, Pods that need a generated claim wait and devices of finished Pods stay allocated; doubled, or beside
kube-controller-manager's own, the second writer meets conflicts and, for a moment, a Pod may have two claims of which
one is the garbage collector's; behind, the same as down.
"""
