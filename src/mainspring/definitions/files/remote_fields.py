"""Fields of Kubernetes and Ray tasks in job and pipeline files (`core/work/remote_jobs.py`)."""

from __future__ import annotations

from mainspring.definitions.files.field_values import Inner, Inside, as_count, as_text, as_words
from mainspring.definitions.files.sources import plain

KUBERNETES: dict[str, Inner] = {
    "image": ("image", as_text),
    "run": ("run", as_words),
    "namespace": ("namespace", as_text),
    "service_account": ("service_account", as_text),
    "user": ("user", as_count),
}
RAY: dict[str, Inner] = {
    "run": ("run", as_words),
    "runtime_env": ("runtime_env", plain),
}

as_kubernetes = Inside("`kubernetes`", KUBERNETES)
as_ray = Inside("`ray`", RAY)
