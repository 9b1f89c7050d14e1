"""Control planes for development, demonstrations and tests.  Never a part of a production deployment.

`embedded` is an API server in memory, `real` runs etcd and the Kubernetes components.  Both are a `plane.LocalPlane`:
child processes in one directory (`layout`) with a state file (`state`).  `kubelet` is a fake kubelet for either.
"""
