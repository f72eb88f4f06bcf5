"""Names and versions, parsed from the output of programs."""

from __future__ import annotations

import pytest

from benchmarks.peers.environments import bare_name
from benchmarks.peers.machine import bare_version, file_system_of, processor_name
from benchmarks.peers.stores import redis_version


@pytest.mark.parametrize(
    ("requirement", "name"),
    [
        ("dbos", "dbos"),
        ("celery[redis]", "celery"),
        ("saq[redis,hiredis]>=0.2,<1", "saq"),
        ("fastapi<0.143", "fastapi"),
        ("psycopg2-binary", "psycopg2-binary"),
        ("@restatedev/restate-server", "@restatedev/restate-server"),
        ("graphile-worker@0.17.0", "graphile-worker"),
    ],
)
def test_a_package_has_a_name_without_extras_and_versions(requirement: str, name: str) -> None:
    assert bare_name(requirement) == name


def test_an_invalid_package_is_refused() -> None:
    with pytest.raises(ValueError, match="not a package"):
        bare_name("[redis]")


def test_the_version_of_redis_is_parsed() -> None:
    said = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=db"

    assert redis_version(said) == "Redis 7.0.15"


def test_redis_without_a_version_is_accepted() -> None:
    assert redis_version("something else") == "Redis"


@pytest.mark.parametrize(
    ("said", "version"),
    [("v20.20.2\n", "20.20.2"), ("postgres (PostgreSQL) 18.6", "18.6"), ("node, 24.1", "24.1"), ("none", "")],
)
def test_a_version_is_parsed_from_output(said: str, version: str) -> None:
    assert bare_version(said) == version


def test_the_processor_is_named_as_linux_names_it() -> None:
    assert processor_name("processor\t: 0\nmodel name\t: AMD EPYC\nflags\t: fpu\n") == "AMD EPYC"
    assert processor_name("processor\t: 0\n") == ""


@pytest.mark.parametrize(("path", "kind"), [("/tmp/x", "tmpfs"), ("/tmpfoo", "ext4"), ("/home/me", "ext4")])
def test_a_path_is_on_the_file_system_that_is_mounted_nearest_above_it(path: str, kind: str) -> None:
    assert file_system_of(path, {"/": "ext4", "/tmp": "tmpfs"}) == kind


def test_a_path_below_no_mount_has_no_file_system() -> None:
    assert file_system_of("/home", {}) == ""
