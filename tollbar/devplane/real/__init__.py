"""The real control plane on this machine: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl.

`build` makes the one binary they share, `components` says how each is called, `launcher` starts and stops them,
`audit` reads what the API server saw.
"""
