"""Deployment rules: what is applied and what is pruned, without a server."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from mainspring.core.model.task import Priority
from mainspring.core.schedules.schedule_json import decode_schedule
from mainspring.definitions.pipeline_file import Notice, Pipeline, read_pipeline
from mainspring.folder.deployment import (
    change_of,
    folder_label,
    item_of,
    pipeline_of,
    plan_webhooks,
    read_folder,
    stale_schedules,
    webhook_note,
)
from mainspring.protocol.errors import InvalidFile
from mainspring.protocol.rest.admin import WebhookView
from mainspring.protocol.rest.runs import JobView
from mainspring.protocol.rest.schedules import ScheduleView

TASKS = "tasks: [{id: only, run: 'true'}]\n"
CREATED_AT = datetime(2026, 11, 16, tzinfo=UTC)


def pipeline(name: str, *notices: Notice, tenant: str | None = None, when: str = "") -> Pipeline:
    """A pipeline of this name."""
    read = read_pipeline(f"{when}{TASKS}", "pipeline.yaml", id=name, directory="/srv")
    return msgspec.structs.replace(read, notices=notices, tenant=tenant)


def notice(url: str, *events: str) -> Notice:
    return Notice(url=url, events=events or ("run.failed",))


def webhook(job: str, url: str, *, tenant: str = "acme", note: str = webhook_note("shop")) -> WebhookView:
    """An existing webhook for failed runs."""
    return WebhookView(
        id=f"{tenant}/{job}/{url}", tenant=tenant, url=url, events=["run.failed"], job=job, enabled=True, note=note,
        version=1, created_at=CREATED_AT, created_by="ada",
    )  # fmt: skip


def planned(pipelines: list[Pipeline], there: list[WebhookView], *, prune: bool = False) -> tuple[list[str], list[str]]:
    """The URLs of missing webhooks, and the ids of stale ones."""
    missing, stale = plan_webhooks(pipelines, there, "shop", prune=prune)
    assert all(request.note == webhook_note("shop") for request in missing)
    return [request.url for request in missing], [one.id for one in stale]


def schedule(name: str, job: str = "etl") -> ScheduleView:
    """An existing schedule; only its name and job matter."""
    fields = dict.fromkeys((field.name for field in msgspec.structs.fields(ScheduleView)), None)
    return ScheduleView(**{**fields, "name": name, "job": job})  # type: ignore[arg-type]


def test_a_job_gets_the_label_of_its_folder_beside_its_own_labels() -> None:
    text = f"labels: {{team: ml}}\n{TASKS}"
    item = item_of(read_pipeline(text, "pipeline.yaml", id="etl", directory="/srv"), "shop")

    assert msgspec.json.decode(bytes(item.job))["labels"] == {"team": "ml", "deployed-from": "shop"}


@pytest.mark.parametrize("priority", Priority.__members__)
def test_a_schedule_keeps_the_priority_of_its_file(priority: str) -> None:
    """The server accepts the named priority."""
    when = f"priority: {priority}\nschedule: {{cron: '0 5 * * *', timezone: UTC}}\n"
    [wanted] = item_of(pipeline("etl", when=when), "shop").schedules

    assert decode_schedule(bytes(wanted.definition)).priority is Priority[priority]


@pytest.mark.parametrize(
    ("name", "mark"), [("My Pipelines", "my-pipelines"), ("", "pipelines"), ("日", "pipelines"), ("x" * 99, "x" * 63)]
)
def test_the_name_of_a_folder_becomes_a_label(name: str, mark: str) -> None:
    assert folder_label(name) == mark


def test_a_pipeline_without_a_tenant_matches_a_job_of_any_tenant() -> None:
    job = JobView(id="job_1", tenant="acme", name="etl", version=1)

    assert pipeline_of(job, {"etl": pipeline("etl")}) is not None
    assert pipeline_of(job, {"etl": pipeline("etl", tenant="acme")}) is not None
    assert pipeline_of(job, {"etl": pipeline("etl", tenant="other")}) is None
    assert pipeline_of(job, {"other": pipeline("other")}) is None


def test_only_deployed_schedules_are_stale() -> None:
    there = [schedule(name) for name in ("etl", "etl-event", "etl-by-hand")]
    there.append(schedule("etl", job="another"))
    daily = pipeline("etl", when="schedule: {cron: '@daily'}\n")

    assert stale_schedules(there, None, "etl") == ["etl", "etl-event"]
    assert stale_schedules(there, daily, "etl") == ["etl-event"]
    assert stale_schedules(there, pipeline("etl"), "etl") == ["etl", "etl-event"]


def test_webhooks_follow_notify() -> None:
    told = pipeline("etl", notice("http://a"), notice("http://b"))

    assert planned([told], []) == (["http://a", "http://b"], [])
    assert planned([told], [webhook("etl", "http://a"), webhook("etl", "http://b")]) == ([], [])
    assert planned([told], [webhook("etl", "http://old")]) == (["http://a", "http://b"], ["acme/etl/http://old"])
    assert planned([pipeline("etl")], [webhook("etl", "http://a")]) == ([], ["acme/etl/http://a"])
    succeeded = pipeline("etl", notice("http://a", "run.succeeded"))
    assert planned([succeeded], [webhook("etl", "http://a")]) == (["http://a"], ["acme/etl/http://a"])


def test_other_webhooks_are_not_touched() -> None:
    there = [webhook("etl", "http://a", note="by hand"), webhook("etl", "http://a", note=webhook_note("other"))]

    assert planned([pipeline("etl")], there, prune=True) == ([], [])


def test_webhooks_of_a_removed_pipeline_are_pruned() -> None:
    there = [webhook("gone", "http://a")]

    assert planned([pipeline("etl")], there) == ([], [])
    assert planned([pipeline("etl")], there, prune=True) == ([], ["acme/gone/http://a"])


def test_a_webhook_of_another_tenant_does_not_match() -> None:
    told = pipeline("etl", notice("http://a"), tenant="acme")

    assert planned([told], [webhook("etl", "http://a", tenant="acme")]) == ([], [])
    assert planned([told], [webhook("etl", "http://a", tenant="b")]) == (["http://a"], ["b/etl/http://a"])


@pytest.mark.parametrize(
    ("job", "schedules", "others", "change"),
    [
        ("created", {"etl": "created"}, True, "created"),
        ("unchanged", {"etl": "unchanged"}, False, "unchanged"),
        ("unchanged", {"etl": "updated"}, False, "updated"),
        ("unchanged", {}, True, "updated"),
        ("updated", {"etl": "unchanged"}, False, "updated"),
        ("", {}, False, ""),
    ],
)
def test_the_change_of_a_pipeline_follows_from_its_parts(
    job: str, schedules: dict[str, str], others: bool, change: str
) -> None:
    assert change_of(job, schedules, others_changed=others) == change


def test_all_errors_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    for name, text in {"a": TASKS, "b": "tasks: []\nnmae: b\n", "c": "[\n", "A": TASKS}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "pipeline.yaml").write_text(text)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "pipeline.yaml").symlink_to("/etc/hostname")

    with pytest.raises(InvalidFile) as caught:
        read_folder(tmp_path, "/srv")

    files = {Path(fault.where.split(":")[0]).parent.name for fault in caught.value.faults}
    assert files == {"a", "b", "c", "d"}
    assert "outside the folder" in str(caught.value)
    assert "the same id" in str(caught.value)
