"""Kubernetes and Ray tasks: validation, and the worker labels that they require (WRK-3)."""

from __future__ import annotations

import msgspec
import pytest

from mainspring.core.admission.validate_submission import check_job
from mainspring.core.explain import advice_messages
from mainspring.core.model.resources import Resources
from mainspring.core.placement.task_shapes import Shape, shape_of
from mainspring.core.work.remote_jobs import KUBERNETES_LABEL
from mainspring.core.work.work import faults_in
from tests.core.builders import a_definition, a_spec
from tests.core.submissions import LIMITS

POD = {"image": "registry.example:5000/team/etl:1.2@sha256:0af", "run": ["load", "{{ params.day }}"]}


@pytest.mark.parametrize(
    "work",
    [
        {"kubernetes": {"image": "python:3.13-slim"}},
        {"kubernetes": {**POD, "namespace": "etl", "service_account": "loader.v1", "user": 1000}, "directory": "/app"},
        {"kubernetes": POD, "secrets": {"A": "env:B"}, "env": {"DAY": "{{ params.day }}"}, "grace_seconds": 5},
        {"ray": {"run": ["python", "train.py", "{{ params.day }}"], "runtime_env": {"pip": ["polars"]}}},
    ],
)
def test_each_kind_is_accepted(work: object) -> None:
    assert check_job(a_definition(a_spec("a", work=work)), LIMITS) == []


@pytest.mark.parametrize(
    ("work", "where", "why"),
    [
        ({"kubernetes": {"run": ["x"]}}, ".kubernetes", "image"),
        ({"kubernetes": {"image": ""}}, ".kubernetes.image", "not an image name"),
        ({"kubernetes": {"image": "a b"}}, ".kubernetes.image", "not an image name"),
        ({"kubernetes": {"image": "a" * 501}}, ".kubernetes.image", "not an image name"),
        ({"kubernetes": {"image": "a", "run": [""]}}, ".kubernetes.run", "must begin with a program"),
        ({"kubernetes": {"image": "a", "run": ["x", "{{ oops"]}}, ".kubernetes.run[1]", "not closed"),
        ({"kubernetes": {"image": "a", "run": ["x"] * 1_001}}, ".kubernetes.run", "more than 1000 arguments"),
        ({"kubernetes": {"image": "a", "namespace": "../kube-system"}}, ".kubernetes.namespace", "lower-case"),
        ({"kubernetes": {"image": "a", "service_account": "A"}}, ".kubernetes.service_account", "lower-case"),
        ({"kubernetes": {"image": "a", "user": 0}}, ".kubernetes.user", "from 1 to"),
        ({"kubernetes": {"image": "a", "address": "http://x"}}, ".kubernetes", "address"),
        ({"kubernetes": {"image": "a"}, "fetch": ["extract"]}, ".fetch", "the worker's machine"),
        ({"ray": {"run": []}}, ".ray.run", "must begin with a program"),
        ({"ray": {"run": ["x", "{{ secrets.x }}"]}}, ".ray.run[1]", "secrets"),
        ({"ray": {"run": ["x"], "address": "http://169.254.169.254"}}, ".ray", "address"),
        ({"ray": {"run": ["x"], "runtime_env": {"env_vars": {}}}}, ".ray.runtime_env.env_vars", "the task's env"),
        ({"ray": {"run": ["x"], "runtime_env": {"pip": "a" * 70_000}}}, ".ray.runtime_env", "larger than"),
        ({"ray": {"run": ["x"]}, "secrets": {"A": "env:B"}}, ".secrets", "exposes the environment variables"),
        ({"ray": {"run": ["x"]}, "directory": "/app"}, ".directory", "working_dir"),
    ],
)
def test_a_fault_is_reported_with_its_path(work: object, where: str, why: str) -> None:
    [fault] = faults_in(msgspec.json.encode(work), "work")
    assert fault.where == f"work{where}"
    assert why in fault.why


@pytest.mark.parametrize(
    ("work", "labels"),
    [
        ({"kubernetes": {"image": "a"}}, ("runs/kubernetes",)),
        ({"ray": {"run": ["x"]}, "isolation": "sandbox"}, ("runs/ray",)),
        ({"run": ["kubernetes", '"ray"']}, ()),
        ({"shell": "x", "env": {"ray": "1"}}, ()),
    ],
)
def test_the_clusters_label_is_required(work: object, labels: tuple[str, ...]) -> None:
    """PLC-3: beside what its definition asks for."""
    shape = shape_of(a_spec("a", work=work, labels={"disk": "ssd"}))
    assert shape.labels == (("disk", "ssd"), *((label, "") for label in labels))


def test_a_worker_that_is_advised_for_a_cluster_is_told_which() -> None:
    """The label alone would be refused: the worker has it with its cluster."""
    shape = Shape(resources=Resources(cpu_millis=1_000), labels=((KUBERNETES_LABEL, ""), ("disk", "fast")))

    said = advice_messages.worker_command("etl", shape)

    assert said == "mainspring worker --pool etl --cpu 1 --kubernetes CONTEXT --label disk=fast"
