"""Isolation of task processes: user, cgroup, namespaces, resource limits."""
