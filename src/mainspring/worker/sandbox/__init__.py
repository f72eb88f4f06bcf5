"""Isolation of a task's process: user, cgroup, namespaces, limits."""
