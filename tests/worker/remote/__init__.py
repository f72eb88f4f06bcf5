"""Tests of remote executors: Kubernetes and Ray."""
