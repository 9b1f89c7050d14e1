"""The workloads of Kubernetes' scheduler_perf, run against kube-scheduler and Tollbar's scheduler on one control plane.

The files are upstream's own (test/integration/scheduler_perf of the Go module k8s.io/kubernetes) and are read where the
module cache has them.  What cannot be run is refused, with the reason.
"""
