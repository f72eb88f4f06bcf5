"""Confinement rules by isolation level: command line, limits, file system view."""

from __future__ import annotations

import resource
from pathlib import Path

import msgspec
import pytest

from mainspring.core.work.isolation import Isolation
from mainspring.core.work.work import Argv, faults_in, labels_of
from mainspring.protocol.errors import Refused
from mainspring.worker.sandbox.confinement import Confinement, confinement_of, is_seen, limits, sandbox_argv, view_of

VIEW = view_of(
    [Path("/home"), Path("/home/ann/proj/.mainspring"), Path("/tmp"), Path("/tmp/state")],
    [Path("/usr/lib/python3"), Path("/home/ann/proj"), Path("/home"), Path("/home/ann/.venv")],
    [Path("/etc/token"), Path("/home/ann/key")],
)
OWN = Path("/tmp/state/attempts/a")


def test_a_task_runs_at_the_level_of_its_worker_or_at_a_higher_one() -> None:
    """Never at a lower one."""
    for asked, least, level in (
        (None, "process", "process"),
        ("none", "process", "process"),
        ("sandbox", "process", "sandbox"),
        ("process", "sandbox", "sandbox"),
        (None, "none", "none"),
    ):
        work = Argv(run=("true",), isolation=None if asked is None else Isolation(asked), network=True)
        found = confinement_of(work, Isolation(least))
        assert found.level == level
        assert found.network is (level == "sandbox")
        assert found.is_limited() is (level != "none")


def test_views_nest_hidden_and_shown_paths() -> None:
    """A hidden path is never shown itself, and redundant paths are dropped."""
    assert VIEW.hidden == (Path("/home"), Path("/tmp"))
    assert VIEW.shown == (Path("/home/ann/.venv"), Path("/home/ann/proj"))
    assert VIEW.inner == (Path("/home/ann/proj/.mainspring"),)


@pytest.mark.parametrize(
    ("place", "seen"),
    [
        ("/srv/data", True),
        ("/home/ann/proj/sub", True),
        ("/home/ann/proj/.mainspring/worker", False),
        ("/home/ann/other", False),
        ("/home", False),
        ("/tmp/state/attempts/b", False),
        ("/tmp/state/attempts/a/work", True),
        ("/home/ann/projects", False),
    ],
)
def test_a_task_runs_only_in_visible_directories(place: str, seen: bool) -> None:
    """A job can't reveal a hidden one by naming it."""
    assert is_seen(Path(place), VIEW, OWN) is seen
    if seen:
        argv = sandbox_argv(["true"], VIEW, OWN, Path(place), network=False)
        assert argv[argv.index("--chdir") + 1] == place
    else:
        with pytest.raises(Refused, match="--show"):
            sandbox_argv(["true"], VIEW, OWN, Path(place), network=False)


def test_mounts_are_in_order_and_the_command_comes_last() -> None:
    """Hidden, shown, hidden again, files, own. The command can't be parsed as options."""
    argv = sandbox_argv(["--bind", "/", "/"], VIEW, OWN, OWN, network=False)
    places = [argv.index(text) for text in ("/home", "/home/ann/proj", "/home/ann/proj/.mainspring", "/etc/token")]
    assert places == sorted(places)
    assert argv[-4:] == ["--", "--bind", "/", "/"]
    assert "/home/ann/key" not in argv
    assert "--share-net" not in argv
    assert "--share-net" in sandbox_argv(["true"], VIEW, OWN, OWN, network=True)


def test_limits_never_exceed_the_workers_own() -> None:
    """And none is set that was not requested."""
    found = {which: (soft, hard) for which, soft, hard in limits(processes=0, memory_bytes=0, file_bytes=1 << 40)}
    assert found[resource.RLIMIT_CORE] == (0, 0)
    assert resource.RLIMIT_NPROC not in found
    assert resource.RLIMIT_DATA not in found
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert found[resource.RLIMIT_NOFILE][1] <= most
    assert found[resource.RLIMIT_FSIZE][1] in (1 << 40, resource.getrlimit(resource.RLIMIT_FSIZE)[1])


@pytest.mark.parametrize(
    ("work", "labels"),
    [
        ('{"shell": "true"}', []),
        ('{"shell": "true", "isolation": "none"}', []),
        ('{"shell": "true", "isolation": "sandbox"}', ["isolation/sandbox"]),
        ('{"shell": "true", "is\\u006flation": "process"}', ["isolation/process"]),
        ('{"handler": "load", "isolation": "sandbox"}', ["handler/load", "isolation/sandbox"]),
        ('{"container": {"image": "x"}}', ["isolation/container"]),
        ('{"shell": "echo isolation"}', []),
    ],
)
def test_a_requested_level_requires_a_worker_label(work: str, labels: list[str]) -> None:
    """Used for placement; most works are classified without parsing."""
    assert sorted(labels_of(msgspec.Raw(work.encode()))) == labels


def test_a_container_needs_an_image() -> None:
    """The level is valid only for container work."""
    assert [fault.where for fault in faults_in('{"shell": "true", "isolation": "container"}', "w")] == ["w.isolation"]
    assert [fault.where for fault in faults_in('{"shell": "true", "isolation": "jail"}', "w")] == ["w.isolation"]
    assert not list(faults_in('{"container": {"image": "x"}, "isolation": "sandbox"}', "w"))


def test_equal_confinements_are_equal_keys() -> None:
    """Child pools are keyed by confinement."""
    assert len({Confinement(), Confinement(level=Isolation.NONE), Confinement(level=Isolation.SANDBOX)}) == 2
