"""KubeSchedulerConfiguration (`kubescheduler.config.k8s.io/v1`): read, defaulted and checked as kube-scheduler does."""
