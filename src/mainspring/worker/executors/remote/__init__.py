"""Remote executors: Kubernetes and Ray."""
