"""Preparation of a worker's start: its state directory, and the names of its handlers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mainspring.protocol.errors import Refused
from mainspring.worker.agent.handler_names import handler_names
from mainspring.worker.agent.launch import make_state_dir
from mainspring.worker.supervisor.supervisor_settings import LOCK_FILE, try_lock

SERVED = """
from mainspring import task

@task
def load() -> None: ...
"""


def test_new_parents_of_a_state_directory_are_traversable_for_a_task_user(tmp_path: Path) -> None:
    """Workers of one parent directory start together, the first of them with a umask of 077."""
    before = os.umask(0o077)
    try:
        make_state_dir(tmp_path / "a" / "b" / "w1", has_task_user=True)
        make_state_dir(tmp_path / "a" / "b" / "w2", has_task_user=True)
        assert os.umask(0o077) == 0o077
    finally:
        os.umask(before)

    modes = [(tmp_path / place).stat().st_mode & 0o777 for place in ("a", "a/b", "a/b/w1", "a/b/w2")]
    assert modes == [0o711, 0o711, 0o700, 0o700]


def test_a_restarted_worker_does_not_import_its_handlers_while_its_supervisor_runs(tmp_path: Path) -> None:
    """The import may take longer than the supervisor waits for the worker."""
    served = tmp_path / "served.py"
    served.write_text(SERVED)
    assert handler_names(tmp_path, (str(served),)) == ("load",)
    served.write_text("raise SystemExit(3)")

    lock = try_lock(tmp_path / LOCK_FILE)
    assert lock is not None
    assert handler_names(tmp_path, (str(served),)) == ("load",)
    with pytest.raises(Refused):
        handler_names(tmp_path, (str(served), "other"))

    os.close(lock)
    with pytest.raises(Refused):
        handler_names(tmp_path, (str(served),))
