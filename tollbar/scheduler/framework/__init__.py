"""The scheduling framework: what a plugin is, the points at which it is called, and what it answers.

Source: k8s.io/kube-scheduler/framework.
"""
