"""Tasks on Kubernetes and on Ray in a job file (WRK-3)."""

from __future__ import annotations

import pytest

from tests.definitions.test_job_file import issues, task

POD = """
kubernetes:
  image: team/etl:1
  run: python load.py {{ params.day }}
  namespace: etl
  user: 1000
secrets: {PASSWORD: env:DB}
"""
RAY = """
ray:
  run: [python, train.py]
  runtime_env: {pip: [polars]}
"""


def test_remote_tasks_are_written_like_other_kinds() -> None:
    assert task(POD)["work"] == {
        "kubernetes": {
            "image": "team/etl:1", "run": ["python", "load.py", "{{ params.day }}"], "namespace": "etl", "user": 1000
        },
        "secrets": {"PASSWORD": "env:DB"},
    }  # fmt: skip
    assert task(RAY)["work"] == {"ray": {"run": ["python", "train.py"], "runtime_env": {"pip": ["polars"]}}}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("    kubernetes: {image: a, user: root}", "4:34 `user` must be an integer"),
        ("    kubernetes: {image: a, comand: x}", "comand"),
        ("    kubernetes: {run: x}", "image"),
        ("    ray: {run: 'a {{ oops'}", "not closed"),
        ("    ray: {run: a}\n    secrets: {A: 'env:B'}", "exposes the environment variables"),
    ],
)
def test_errors_are_reported_with_their_position(fields: str, said: str) -> None:
    assert said in " ".join(issues(f"name: job\ntasks:\n  - id: only\n{fields}\n"))
