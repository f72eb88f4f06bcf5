"""Work beyond this machine: Kubernetes and Ray."""
