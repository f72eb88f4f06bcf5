"""Discovery of pipelines: directories, ids and invalid files (FLD-1)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mainspring.core.admission.validate_job import NAME
from mainspring.folder import discover
from mainspring.folder.discover import MAX_DEPTH, MAX_FILE_BYTES, MAX_ID_LENGTH, pipeline_id, read_one, scan
from mainspring.folder.state.records import PIPELINE_FILE
from tests.folder.unprivileged import shared_folder, without_privileges


def put(root: Path, *paths: str) -> None:
    """Write pipelines to these directories, each with its own text."""
    for path in paths:
        (root / path).mkdir(parents=True, exist_ok=True)
        (root / path / PIPELINE_FILE).write_text(f"name: {path}\n")


def paths(root: Path) -> list[str]:
    """The paths of found pipelines."""
    return [found.path for found in scan(root).found]


def test_every_directory_with_a_pipeline_is_found_including_the_folder_itself(tmp_path: Path) -> None:
    """Sorted by path, with their ids and texts; a pipeline may be below another."""
    root = tmp_path / "Reports"
    put(root, "weekly", ".", "Daily/EU report", "daily")
    (root / "empty").mkdir()

    result = scan(root)
    assert [(found.path, found.pipeline_id, found.text) for found in result.found] == [
        (".", "reports", "name: .\n"),
        ("Daily/EU report", "daily.eu-report", "name: Daily/EU report\n"),
        ("daily", "daily", "name: daily\n"),
        ("weekly", "weekly", "name: weekly\n"),
    ]
    assert result.faults == ()


def test_hidden_directories_and_those_of_tools_are_ignored(tmp_path: Path) -> None:
    """The folder itself may have any name."""
    root = tmp_path / ".venv"
    put(root, "a", ".git", "node_modules/x", "a/__pycache__", "venv/lib", ".venv", ".mainspring", "b/.results")
    assert paths(root) == ["a"]


def test_links_to_directories_are_not_followed(tmp_path: Path) -> None:
    """Neither outside the folder nor in a cycle."""
    put(tmp_path / "elsewhere", "x")
    root = tmp_path / "folder"
    put(root, "a")
    (root / "out").symlink_to(tmp_path / "elsewhere")
    (root / "a" / "round").symlink_to(root)
    assert paths(root) == ["a"]


def test_a_folder_may_itself_be_a_symlink(tmp_path: Path) -> None:
    """The user chose it."""
    put(tmp_path / "real", "a", "b")
    (tmp_path / "real" / "b" / PIPELINE_FILE).unlink()
    (tmp_path / "real" / "b" / PIPELINE_FILE).symlink_to("../a/pipeline.yaml")
    (tmp_path / "link").symlink_to("real")
    result = scan(tmp_path / "link")
    assert [(found.path, found.text) for found in result.found] == [("a", "name: a\n"), ("b", "name: a\n")]


def _out(path: Path) -> None:
    secret = path.parents[2] / "secret"
    secret.write_text("name: secret\n")
    path.symlink_to(secret)


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (_out, "is a symbolic link to "),
        (lambda path: path.symlink_to("nowhere"), "is a broken symbolic link"),
        (lambda path: path.symlink_to(path.name), "is a broken symbolic link"),
        (lambda path: path.symlink_to("."), "is not a regular file"),
        (lambda path: path.mkdir(), "is not a regular file"),
        (os.mkfifo, "is not a regular file"),
        (lambda path: path.write_bytes(b"#" * (MAX_FILE_BYTES + 1)), "is larger than 1 MiB"),
        (lambda path: path.write_bytes(b"name: a\ntitle: \xff\n"), "is not UTF-8, at line 2"),
    ],
    ids=["out", "nowhere", "round", "to a directory", "directory", "pipe", "large", "not UTF-8"],
)
def test_an_invalid_file_is_found_with_its_fault(tmp_path: Path, make: Callable[[Path], None], fault: str) -> None:
    """The other pipelines are found."""
    root = tmp_path / "folder"
    put(root, "good")
    (root / "bad").mkdir()
    make(root / "bad" / PIPELINE_FILE)

    bad, good = scan(root).found
    assert (bad.path, bad.pipeline_id, bad.text) == ("bad", "bad", "")
    assert bad.fault is not None
    assert bad.fault.startswith(fault)
    assert (good.path, good.fault) == ("good", None)


def test_a_byte_order_mark_is_stripped(tmp_path: Path) -> None:
    """Some editors write one."""
    (tmp_path / PIPELINE_FILE).write_bytes(b"\xef\xbb\xbfname: a\n")
    found = read_one(tmp_path, ".")
    assert found is not None
    assert found.text == "name: a\n"


def test_a_single_directory_can_be_read(tmp_path: Path) -> None:
    """None if it has no pipeline or does not exist."""
    put(tmp_path, "a/b")
    assert read_one(tmp_path, "a/b") == scan(tmp_path).found[0]
    assert read_one(tmp_path, "a") is None
    assert read_one(tmp_path, "gone") is None


def test_directories_below_the_maximum_depth_are_ignored_and_reported(tmp_path: Path) -> None:
    """The others are found."""
    deep = "/".join("d" * MAX_DEPTH)
    put(tmp_path, deep, f"{deep}/deeper", "z")
    result = scan(tmp_path)
    assert [found.path for found in result.found] == [deep, "z"]
    assert [fault.partition(f" is {MAX_DEPTH} ")[0] for fault in result.faults] == [str(tmp_path / deep)]
    assert result.unreadable == ()


def test_too_many_directories_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a home directory that was given by mistake."""
    monkeypatch.setattr(discover, "MAX_DIRECTORIES", 5)
    put(tmp_path, *(f"p{number}" for number in range(9)))
    result = scan(tmp_path)
    assert [found.path for found in result.found] == ["p0", "p1", "p2", "p3"]
    assert [fault.partition(" directories")[0] for fault in result.faults] == [f"{tmp_path} has more than 5"]
    assert result.unreadable == (".",)


def test_a_name_that_is_not_utf_8_is_reported(tmp_path: Path) -> None:
    """It can't be stored in a state file."""
    put(tmp_path, "a")
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/x\xff"))).mkdir()
    result = scan(tmp_path)
    assert [found.path for found in result.found] == ["a"]
    assert [f"{tmp_path}/x? is not UTF-8" in fault for fault in result.faults] == [True]


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    """It does not count as an empty one."""
    result = scan(tmp_path / "gone")
    assert result.faults == (f"{tmp_path / 'gone'} can't be read: No such file or directory",)
    assert result.unreadable == (".",)


def test_unreadable_files_are_reported() -> None:
    """A file has a fault; pipelines in an unreadable directory may still exist."""
    with shared_folder() as root:
        put(root, "a", "b", "c")
        (root / "b" / PIPELINE_FILE).chmod(0)
        (root / "c").chmod(0)
        with without_privileges():
            result = scan(root)
        (root / "c").chmod(0o755)
    assert [(found.path, found.fault) for found in result.found] == [
        ("a", None),
        ("b", "can't be read: Permission denied"),
    ]
    assert result.faults == (f"{root}/c can't be read: Permission denied",)
    assert result.unreadable == ("c",)


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        ("daily-report", "daily-report"),
        ("Team A/Daily Report", "team-a.daily-report"),
        ("a.b", "a.b"),
        ("größe_1", "grosse_1"),
        ("Über", "uber"),
        ("U\u0308ber", "uber"),
        ("-x/.y.", "x.y"),
        ("日本/etl", "pipeline.etl"),
        ("x:y", "x-y"),
        (".", "the-folder"),
    ],
)
def test_an_id_is_the_path_in_characters_allowed_in_names(directory: str, expected: str) -> None:
    """Lower case, no accents, dots for slashes, hyphens for the rest, and none at the ends."""
    assert pipeline_id(Path("/somewhere/The Folder"), directory) == expected
    assert NAME.fullmatch(expected)


def test_ids_of_long_paths_are_truncated_and_unique(tmp_path: Path) -> None:
    """They remain valid names with the suffixes of schedules."""
    ids = {pipeline_id(tmp_path, f"{'x' * 200}/{number}") for number in range(5)}
    assert len(ids) == 5
    assert all(len(name) == MAX_ID_LENGTH and NAME.fullmatch(f"{name}-a1b2c3-event") for name in ids)


def test_the_root_directory_has_an_id() -> None:
    """It has no name of its own."""
    assert pipeline_id(Path("/"), ".") == "pipeline"
