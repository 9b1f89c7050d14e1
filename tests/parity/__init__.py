"""The claims controller beside kube-controller-manager's own: the same scripts, the same objects, the same writes."""
