"""Tests of the back ends beyond one machine: Kubernetes and Ray."""
