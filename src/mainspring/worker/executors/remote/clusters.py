"""Clusters of a worker: validate the options at startup, and create the executors in the supervisor.

Kubernetes dependencies (extra `k8s`) are imported only by a worker with a Kubernetes cluster.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from urllib.parse import urlsplit

from mainspring.core.work.remote_jobs import KUBERNETES_LABEL, RAY_LABEL, fault_in_namespace
from mainspring.core.work.work import OnKubernetes, OnRay, Work
from mainspring.protocol.errors import Fault, Refused
from mainspring.worker.executors.executor import Executor, Runtime
from mainspring.worker.executors.remote.cluster import supervisor_id
from mainspring.worker.executors.remote.ray import RayCluster
from mainspring.worker.executors.remote.remote_executor import RemoteExecutor

_MISSING = "requires the extra k8s\nhint: pip install 'mainspring[k8s]'"


def cluster_labels(kubernetes: str, ray: str) -> dict[str, str]:
    """Return the labels of a worker with these clusters."""
    return {label: "" for label, value in ((KUBERNETES_LABEL, kubernetes), (RAY_LABEL, ray)) if value}


def faults_in_clusters(kubernetes: str, namespaces: Sequence[str], ray: str) -> list[Fault]:
    """Validate the cluster options, without contacting a cluster."""
    faults = [
        Fault(where="kubernetes-namespace", why=f"{name[:80]} {why}")
        for name in namespaces
        if (why := fault_in_namespace(name)) is not None
    ]
    if namespaces and not kubernetes:
        faults.append(Fault(where="kubernetes-namespace", why="requires --kubernetes"))
    if kubernetes:
        faults += _faults_in_context(kubernetes)
    if ray and (urlsplit(ray).scheme not in {"http", "https"} or not urlsplit(ray).hostname):
        faults.append(Fault(where="ray", why="must be the address of its dashboard, such as http://127.0.0.1:8265"))
    return faults


def cluster_executors(runtime: Runtime) -> dict[type[Work], Executor]:
    """Return the executors of remote work. Without a cluster they fail their tasks."""
    settings, clock, supervisor = runtime.settings, runtime.clock, supervisor_id(runtime.state_dir)
    kubernetes, ray = None, None
    if settings.kubernetes:
        from mainspring.worker.executors.remote.kubernetes import KubernetesCluster, read_config

        config = read_config(settings.kubernetes)
        namespaces, start_seconds = settings.kubernetes_namespaces, settings.container_start_seconds
        kubernetes = KubernetesCluster(config, namespaces, supervisor, clock, start_seconds)
    if settings.ray:
        ray = RayCluster(settings.ray, supervisor, clock, os.environ)
    return {OnKubernetes: RemoteExecutor(kubernetes, runtime), OnRay: RemoteExecutor(ray, runtime)}


def _faults_in_context(context: str) -> list[Fault]:
    if find_spec("lightkube") is None:
        return [Fault(where="kubernetes", why=_MISSING)]
    from mainspring.worker.executors.remote.kubernetes import read_config

    try:
        read_config(context)
    except Refused as refused:
        return [Fault(where="kubernetes", why=str(refused))]
    return []
