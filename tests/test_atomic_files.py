"""Files are replaced as a whole, and never through a symbolic link."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mainspring.atomic_files import create_file, rename_without_replacing, write_atomically


def test_a_file_is_replaced_with_the_given_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    write_atomically(path, b"new", mode=0o600, sync=True)

    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_symbolic_link_in_place_of_the_temporary_file_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    (tmp_path / "file.new").symlink_to(target)

    write_atomically(tmp_path / "file", b"new")

    assert not target.exists()
    assert (tmp_path / "file").read_text() == "new"


def test_a_failed_write_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "directory"
    path.mkdir()

    with pytest.raises(OSError, match="directory"):
        write_atomically(path, b"new")

    assert [one.name for one in tmp_path.iterdir()] == ["directory"]


def test_a_file_is_created_once(tmp_path: Path) -> None:
    create_file(tmp_path / "file", b"first", 0o600)

    with pytest.raises(FileExistsError):
        create_file(tmp_path / "file", b"second", 0o600)


@pytest.mark.parametrize("has_links", [True, False])
def test_a_rename_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_links: bool) -> None:
    def refuse(*_args: object, **_options: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    if not has_links:
        monkeypatch.setattr(os, "link", refuse)
    first, second, name = tmp_path / "1", tmp_path / "2", tmp_path / "name"
    first.write_text("first")
    second.write_text("second")

    rename_without_replacing(first, name)
    with pytest.raises(FileExistsError):
        rename_without_replacing(second, name)

    assert name.read_text() == "first"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["2", "name"]
