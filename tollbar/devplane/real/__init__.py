"""The real control plane on this machine: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl.

`build` makes the one binary they share, `components` has their flags, `launcher` starts and stops them, `oracle` asks
Kubernetes' own CEL, allocator and scheduler, to compare with ours.
"""
