"""Cluster options of a worker: its labels, and validation at startup."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring.protocol.errors import Refused
from mainspring.worker.agent.launch import WorkerOptions, agent_settings
from mainspring.worker.supervisor.supervisor_settings import read_settings
from tests.worker.remote.kubernetes import StandIn


def test_a_worker_with_clusters_has_their_labels(
    tmp_path: Path, cluster: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig()))
    options = WorkerOptions(
        servers=("http://127.0.0.1:1",), state_dir=tmp_path / "state", kubernetes="here",
        kubernetes_namespaces=("etl", "other"), ray="http://127.0.0.1:8265",
    )  # fmt: skip
    settings = agent_settings(options)
    assert {"runs/kubernetes": "", "runs/ray": ""}.items() <= settings.labels.items()
    supervisor = read_settings(tmp_path / "state")
    assert (supervisor.kubernetes, supervisor.kubernetes_namespaces) == ("here", ("etl", "other"))
    assert supervisor.ray == "http://127.0.0.1:8265"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"kubernetes": "nowhere-known"}, "nowhere-known"),
        ({"kubernetes": "by-program"}, "by-program"),
        ({"kubernetes": "in-cluster"}, "in-cluster"),
        ({"kubernetes": "here", "kubernetes_namespaces": ("a/b",)}, "a/b must be"),
        ({"kubernetes_namespaces": ("etl",)}, "--kubernetes"),
        ({"ray": "127.0.0.1:8265"}, "http://127.0.0.1:8265"),
        ({"labels": {"runs/ray": ""}}, "runs/"),
    ],
)
def test_invalid_cluster_options_are_rejected_at_startup(
    tmp_path: Path, cluster: StandIn, monkeypatch: pytest.MonkeyPatch, said: dict[str, object], why: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig()))
    options = {"servers": ("http://127.0.0.1:1",), "state_dir": tmp_path / "state", **said}
    with pytest.raises(Refused) as caught:
        agent_settings(WorkerOptions(**options))  # type: ignore[arg-type]
    assert why in str(caught.value)
