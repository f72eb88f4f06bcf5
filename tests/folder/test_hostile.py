"""Folders with hostile content: invalid files are reported or treated as data, and the other pipelines run."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import httpx2
import pytest

from mainspring.app.folder_scheduler import PipelineScheduler
from mainspring.folder.state.records import ADDRESS_FILE, OWN_DIRECTORY, RESULTS, STATE_FILE
from mainspring.protocol.errors import Refused
from tests.folder.folder_harness import FolderHarness, put, running_folder, state, text

pytestmark = pytest.mark.processes

TASKS = "tasks:\n  - {id: only, shell: 'true'}\n"
PIPELINE = "pipeline.yaml"


def _bomb() -> str:
    lines = ["a0: &a0 x", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10))]
    return "\n".join(lines) + "\n"


def _asking(prompt: str) -> str:
    return f"input: {{items: [{{b: 1}}]}}\nmap: {{prompt: '{prompt}'}}\n"


def _reading(path: str) -> bytes:
    return f"map: {{prompt: x}}\ninput: {{from: {{type: csv, path: {path}}}}}\n".encode()


TEXTS = {
    "a bomb of aliases": (_bomb().encode(), ":8:15: has more than 1000000 values"),
    "an alias of itself": (b"a: &a [*a]\n", ":1:8: `*a` has no complete anchor"),
    "deep": (b"x: " + b"[" * 10_000, ":1:67: is nested deeper than 64"),
    "large": (b"#" * 2_000_000, " is larger than 1 MiB"),
    "many keys": (b"".join(b"k%d: 1\n" % n for n in range(50_000)), ":100:1: unknown field `k99`"),
    "a tab": (b"tasks:\n\t- {id: a, shell: x}\n", ":2:1: is not YAML"),
    "NUL": (b"name: a\0b\n", ":1:1: is not YAML"),
    "NUL in a command": (b'tasks: [{id: a, shell: "\\0"}]\n', ":1:17: `shell` contains NUL"),
    "UTF-16": ("name: x\n".encode("utf-16"), " is not UTF-8, at line 1"),
    "half a character": (b'name: "\\ud800"\n', ":1:10: is not YAML"),
    "a command to the terminal": (b'"\\e[2J": 1\n', ":1:1: unknown field ` [2J`"),
    "a name that can't be seen": (b'name: "\\e[2J"\n', ":1:7: `name` must be one line of at most 200"),
    "a huge number": (b"params: {a: 9" + b"9" * 300 + b"}\n", ":1:10: `a` is an integer of 301 digits"),
    "an endless number": (b"schedule: {every: 1h, window: {maxDelayMinutes: 1e999}}\n", "must be a number"),
    "a date as a key": (b"2026-01-01: x\n", ":1:1: unknown field `2026-01-01`"),
    "a key twice": (b"name: a\nname: b\n", ":2:1: duplicate key `name`"),
    "a merge": (b"<<: {name: a}\n", ":1:1: merge keys are not supported"),
    "a tag": (b"name: !!python/object/apply:os.system [id]\n", ":1:7: tags such as"),
    "a template that is open": (_asking("{{ b").encode(), ":2:7: a {{ is not closed: '{{ b'"),
    "a template that loops": (_asking("{% for x in b %}{% endfor %}").encode(), ":2:7: statements"),
    "an endless list": (_asking("{{ range(9) }}").encode(), "there are no functions"),
    "a power": (_asking("{{ 9**9**9 }}").encode(), "`*` and `**` are not available"),
    "an absolute path": (_reading("/etc/passwd"), ":2:33: `path` must be inside"),
    "a path up": (_reading("a/../../b"), ":2:33: `path` must be inside"),
    "results elsewhere": (_asking("x").encode() + b"results: ../x\n", ":3:1: `results` must be a relative path"),
    "a condition elsewhere": (b"schedule: {every: 1h, condition: {file_exists: ../x}}\n", "must be inside"),
    "a notice to a file": (b"notify: {on_failure: 'file:///etc/${env:HOME}'}\n", "must be a URL that begins with"),
    "a zone that is a file": (b"schedule: {cron: '@daily', timezone: ../../etc/passwd}\n", "is not an IANA time zone"),
}


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory outside the folder, with a precious file."""
    place = tmp_path_factory.mktemp("outside")
    (place / "precious").write_text(TASKS)
    return place


def _names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def _for_everybody(root: Path) -> list[Path]:
    """Files that any user of the machine can write to."""
    return [path for path in root.rglob("*") if path.lstat().st_mode & 0o002]


async def _is_undisturbed(harness: FolderHarness) -> None:
    """The pipeline `good` runs."""
    await harness.run_now("good")
    assert state(harness.root, "good")["lastRun"]["success"]


async def test_invalid_files_are_reported_with_line_and_column_and_the_others_run(tmp_path: Path) -> None:
    put(tmp_path, "good", text())
    for name, (content, _) in TEXTS.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / PIPELINE).write_bytes(content)

    async with running_folder(tmp_path) as harness:
        errors = harness.beginning.errors

        for name, (_, said) in TEXTS.items():
            assert said in errors[f"{name}/{PIPELINE}"], name
            assert errors[f"{name}/{PIPELINE}"].startswith(f"{name}/{PIPELINE}")
        assert all(flaw.replace("\n", "").isprintable() for flaw in errors.values())
        await _is_undisturbed(harness)


async def test_unusual_but_valid_files_are_accepted(tmp_path: Path) -> None:
    files = {"marked": f"\ufeff{text()}", "crlf": text().replace("\n", "\r\n"), "with space": text(), "Ünïcode": text()}
    for name, content in files.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / PIPELINE).write_bytes(content.encode())

    async with running_folder(tmp_path) as harness:
        assert harness.beginning.errors == {}
        for name in ("marked", "crlf", "with-space", "unicode"):
            await harness.run_now(name)


def _fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


def _directory(path: Path, _: Path) -> None:
    (path / "inner").mkdir(parents=True)


def _link(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "precious")


def _device(path: Path, _: Path) -> None:
    path.symlink_to("/dev/zero")


def _link_to_directory(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


async def test_a_pipeline_file_outside_the_folder_is_refused(tmp_path: Path, outside: Path) -> None:
    put(tmp_path, "good", text())
    for make in (_fifo, _directory, _link, _device):
        (tmp_path / make.__name__).mkdir()
        make(tmp_path / make.__name__ / PIPELINE, outside)

    async with running_folder(tmp_path) as harness:
        assert harness.beginning.errors == {
            f"_fifo/{PIPELINE}": f"_fifo/{PIPELINE} is not a regular file",
            f"_directory/{PIPELINE}": f"_directory/{PIPELINE} is not a regular file",
            f"_link/{PIPELINE}": f"_link/{PIPELINE} is a symbolic link to {outside}/precious, outside the folder",
            f"_device/{PIPELINE}": f"_device/{PIPELINE} is a symbolic link to /dev/zero, outside the folder",
        }
        await _is_undisturbed(harness)


@pytest.mark.parametrize("name", [STATE_FILE, RESULTS])
async def test_links_and_devices_in_place_of_our_files_are_replaced(tmp_path: Path, outside: Path, name: str) -> None:
    makers = (_fifo, _directory, _link, _link_to_directory)
    for make in makers:
        make(put(tmp_path, make.__name__, text()) / name, outside)

    async with running_folder(tmp_path) as harness:
        for make in makers:
            await harness.run_now(make.__name__)
            assert harness.source.find(make.__name__).state.stats.total_runs == 1

    assert _names(outside) == ["precious"]
    assert (outside / "precious").read_text() == TASKS


async def test_results_behind_a_symlink_are_not_deleted(tmp_path: Path) -> None:
    place, theirs = put(tmp_path, "good", text()), tmp_path / "theirs"
    theirs.mkdir()
    for number in range(120):
        (theirs / f"2020-01-01T00-00-00-{number}.json").touch()
    (place / RESULTS).symlink_to(theirs)

    async with running_folder(tmp_path) as harness:
        await harness.run_now("good")

    assert len(_names(theirs)) == 120


@pytest.mark.parametrize("make", [_fifo, _link, _link_to_directory])
async def test_our_directory_must_be_inside_the_folder(
    tmp_path: Path, outside: Path, make: Callable[[Path, Path], None]
) -> None:
    put(tmp_path, "good", text())
    make(tmp_path / OWN_DIRECTORY, outside)

    with pytest.raises(Refused, match=OWN_DIRECTORY):
        await PipelineScheduler(tmp_path, port=0, ai_invoker=str).start()

    assert _names(outside) == ["precious"]


@pytest.mark.parametrize("make", [_fifo, _link])
async def test_a_link_in_place_of_the_address_file_is_replaced(
    tmp_path: Path, outside: Path, make: Callable[[Path, Path], None]
) -> None:
    (tmp_path / OWN_DIRECTORY).mkdir()
    make(tmp_path / OWN_DIRECTORY / ADDRESS_FILE, outside)

    async with running_folder(tmp_path) as harness:
        wait_for_event = json.loads((tmp_path / OWN_DIRECTORY / ADDRESS_FILE).read_text())
        assert wait_for_event["address"] == harness.box.address

    assert (outside / "precious").read_text() == TASKS


async def test_a_directory_that_becomes_a_symlink_is_not_followed(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    put(root, "good", text())
    put(root, "a", text())
    async with running_folder(root) as harness:
        (root / "a").rename(elsewhere)
        (root / "a").symlink_to(elsewhere)

        assert (await harness.wait_for_event("schedule:changed", pipeline_id="a")).change == "removed"
        assert (elsewhere / STATE_FILE).exists()
        await _is_undisturbed(harness)


def _claim(root: Path, path: str, **said: object) -> None:
    run = {"startedAt": "2026-01-01T00:00:00Z", "completedAt": "2026-01-01T00:00:01Z", "success": True}
    stats = {"totalRuns": 1, "successfulRuns": 1, "failedRuns": 0, "lastFailure": None}
    whole = {"version": 1, "scheduleId": f"{path}-a1b2c3", "pipelineId": path, "stats": stats, "lastRun": run, **said}
    (put(root, path, text()) / STATE_FILE).write_text(json.dumps(whole))


LIES: dict[str, tuple[dict[str, object], str]] = {
    "dots": ({"scheduleId": ".."}, "has an invalid scheduleId"),
    "path": ({"scheduleId": "../../etc-a1b2c3"}, "has an invalid scheduleId"),
    "long": ({"scheduleId": "x" * 10_000}, "has an invalid scheduleId"),
    "less": ({"stats": {"totalRuns": -1}}, "Expected `int` >= 0"),
    "last": ({"nextRun": "9999-12-31T23:59:59-14:00"}, "has a time out of range"),
    "first": ({"nextRun": "0001-01-01T00:00:00+14:00"}, "has a time out of range"),
}


async def test_a_forged_state_file_is_reported_and_recreated(tmp_path: Path) -> None:
    for name, (said, _) in LIES.items():
        _claim(tmp_path, name, **said)

    async with running_folder(tmp_path) as harness:
        for warning, (name, (_, why)) in zip(harness.beginning.warnings, sorted(LIES.items()), strict=True):
            assert warning.startswith(f"{name}/{STATE_FILE} is invalid: ")
            assert why in warning
            await harness.run_now(name)
            assert state(tmp_path, name)["stats"]["totalRuns"] == 1


async def test_a_last_run_in_the_future_does_not_stop_the_schedule(tmp_path: Path) -> None:
    for name, at in (("old", "1999-01-01T00:00:00Z"), ("new", "2999-01-01T00:00:00Z")):
        _claim(tmp_path, name, lastRun={"startedAt": at, "completedAt": at, "success": True})

    async with running_folder(tmp_path) as harness:
        assert harness.beginning.errors == {}
        for name in ("old", "new"):
            assert harness.source.find(name).schedule_id == f"{name}-a1b2c3"
            await harness.run_now(name)


async def test_a_forged_index_reaches_nothing_outside_the_folder(tmp_path: Path) -> None:
    root, theirs = tmp_path / "folder", tmp_path / "theirs"
    put(root, "good", text())
    _claim(tmp_path, "theirs")
    (root / OWN_DIRECTORY).mkdir()
    entry = {"schedule_id": "x-000000", "pipeline_id": "x", "names": ["x-000000"]}
    lies = [
        {**entry, "path": "../theirs"},
        {**entry, "path": str(theirs), "schedule_id": "y-000000", "names": []},
        {**entry, "path": "z", "schedule_id": "z-000000", "names": ["good"]},
    ]
    (root / OWN_DIRECTORY / "folder.json").write_text(json.dumps({"version": 1, "schedules": lies}))

    async with running_folder(root) as harness:
        await _is_undisturbed(harness)
        assert list(await harness.server_schedules()) == [harness.source.find("good").schedule_id]

    assert state(tmp_path, "theirs")["scheduleId"] == "theirs-a1b2c3"


async def test_an_unknown_after_is_reported_and_a_cycle_does_not_run(tmp_path: Path) -> None:
    put(tmp_path, "good", text())
    put(tmp_path, "bad", "shedule: {}\n")
    waiting = ["a", "b", "c", "x", "y", "z", "w", "of-bad", "report", "u"]
    for one, other in zip(waiting, ["b", "a", "c", "y", "z", "x", "v", "bad", "reports", "goo"], strict=True):
        put(tmp_path, one, f"schedule: {{every: 1h, after: {other}}}\n{TASKS}")

    async with running_folder(tmp_path) as harness:
        errors = harness.beginning.errors
        assert set(errors) == {f"{name}/{PIPELINE}" for name in (*"abcxyz", "bad")}
        assert f"a/{PIPELINE}:1:23: `after` forms a cycle: a waits for b, b waits for a" in errors[f"a/{PIPELINE}"]
        assert "x waits for y, y waits for z, z waits for x" in errors[f"x/{PIPELINE}"]
        assert f"c/{PIPELINE}:1:23: a job can't depend on itself" in errors[f"c/{PIPELINE}"]
        assert harness.beginning.warnings == (
            f"report/{PIPELINE}:1:23: waits for `reports`, which is not in this folder",
            f"u/{PIPELINE}:1:23: waits for `goo`, which is not in this folder, did you mean `good`?",
            f"w/{PIPELINE}:1:23: waits for `v`, which is not in this folder",
        )
        await _is_undisturbed(harness)


async def test_duplicate_ids_and_non_printable_names_are_reported(tmp_path: Path) -> None:
    for name in ("a b", "a-b", "UP", "up", "x" * 255, "..a", "new\nline", "\x1b[2J"):
        put(tmp_path, name, text())

    async with running_folder(tmp_path) as harness:
        assert harness.beginning.warnings == (
            "a-b has the same id as a b and is ignored: rename one of them",
            "up has the same id as UP and is ignored: rename one of them",
        )
        assert all("non-printable" in flaw and flaw.isprintable() for flaw in harness.beginning.errors.values())
        assert len(harness.beginning.errors) == 2
        long = harness.source.find("x" * 50)
        assert len(long.schedule_id) <= 122
        await harness.run_now(long.schedule_id)


async def test_templates_in_data_are_not_evaluated(tmp_path: Path) -> None:
    cell = "{{ index }} {% raw %} $(touch made) `touch made`; touch made\n--help"
    content = dedent("""\
        schedule: {every: 999h}
        input: {from: {type: csv, path: rows.csv}}
        map: {prompt: "{{title}}"}
        invoker: {command: [cat]}
        """)
    place = put(tmp_path, "good", content)
    (place / "rows.csv").write_text(f'title\n"{cell}"\n')

    async with running_folder(tmp_path) as harness:
        await harness.run_now("good")

    written = json.loads((place / state(tmp_path, "good")["lastRun"]["resultFile"]).read_text())
    assert written["result"]["results"] == [{"title": cell, "answer": cell}]
    assert not (place / "made").exists()


ROWS: dict[str, tuple[bytes | None, str]] = {
    "utf-16": ("a\nx\n".encode("utf-16-le"), "rows.csv:1: line 1 "),
    "latin-1": (b"a\ncaf\xe9\n", "rows.csv:2: byte 6 (0xe9) is not utf-8"),
    "ragged": (b"a,b\n1\n", "rows.csv:2: line 2 has 1 field"),
    "empty": (b"", "rows.csv is empty"),
    "link": (None, "rows.csv"),
}


async def test_unreadable_rows_fail_the_run_with_their_line(tmp_path: Path, outside: Path) -> None:
    asks = "schedule: {every: 999h}\ninput: {from: {type: csv, path: rows.csv}}\nmap: {prompt: x}\n"
    for name, (content, _) in ROWS.items():
        place = put(tmp_path, name, f"{asks}invoker: {{command: [cat]}}\n")
        if content is None:
            (place / "rows.csv").symlink_to(outside / "precious")
        else:
            (place / "rows.csv").write_bytes(content)

    async with running_folder(tmp_path) as harness:
        await asyncio.gather(*(harness.run_now(name) for name in ROWS))

    for name, (_, said) in ROWS.items():
        assert said in state(tmp_path, name)["lastRun"]["error"]


async def test_our_files_are_private_and_foreign_web_pages_trigger_nothing(tmp_path: Path) -> None:
    put(tmp_path, "good", text())
    async with running_folder(tmp_path) as harness:
        schedule = harness.source.find("good").schedule_id
        await harness.run_now("good")
        assert _for_everybody(tmp_path) == []
        assert (tmp_path / OWN_DIRECTORY).stat().st_mode & 0o077 == 0

        asked = f"{harness.box.address}/api/v1/schedules/{schedule}/trigger"
        for name, value in (
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://127.0.0.1:1"),
            ("host", "evil.example"),
            ("x-forwarded-for", "10.0.0.1"),
        ):
            assert await _post(asked, {name: value}) == 401
        assert await _post(asked, {"origin": harness.box.address}) == 200


async def _post(url: str, headers: dict[str, str]) -> int:
    """The server's response to a request with these headers."""
    async with httpx2.AsyncClient() as client:
        return (await client.post(url, headers=headers, json={})).status_code
