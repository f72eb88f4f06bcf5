"""The project file: `mainspring.toml`, or `[tool.mainspring]` in `pyproject.toml`, here or in a parent directory.

    server_url = "https://mainspring.example.org"      # for commands
    tenant = "acme"
    log_level = "info"                                 # for server and worker; also log_format

    [server]                                           # options of `mainspring server`, with _ for -
    port = 8485
    store = "postgresql://mainspring:${env:PGPASSWORD}@db/mainspring"

    [worker]                                           # options of `mainspring worker`
    pool = "gpu"

    [invoker]                                          # default of --invoker
    command = ["llm", "-m", "small"]

The nearest file wins. Projects may come from untrusted sources, so the file can't contain a token: a checked-out
directory must not be able to send one to a server of its choice.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.cli.config.toml_files import TomlFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OWN, SHARED = "mainspring.toml", "pyproject.toml"
FOR_COMMANDS = ("server_url", "tenant")
FOR_PROCESSES = {"log_level": "log_level", "log_format": "log_format", "server_url": "server"}
"""Top-level keys that also set an option of server and worker."""
SECTIONS = ("server", "worker", "up")
INVOKER = "invoker"
_TOOL = ("tool", "mainspring")


class ProjectFile:
    """A parsed project file."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises InvalidFile, also for an unknown key."""
        self.path = path
        self._file = TomlFile(path)
        self._root = () if path.name == OWN else _TOOL
        self._file.check_keys(self._root, (*FOR_COMMANDS, *FOR_PROCESSES, *SECTIONS, INVOKER))

    def text(self, name: str) -> str | None:
        """Return a top-level value."""
        return self._file.text_at(*self._root, name)

    def section(self, name: str, known: Iterable[str]) -> Mapping[str, object]:
        """Return the options of a process, its own and the shared ones. Raises InvalidFile for an unknown option."""
        options = set(known)
        self._file.check_keys((*self._root, name), options)
        shared = {
            option: value
            for key, option in FOR_PROCESSES.items()
            if option in options and (value := self.text(key)) is not None
        }
        if INVOKER in options and (invoker := self.invoker()) is not None:
            shared[INVOKER] = invoker
        return {**shared, **self._file.table(*self._root, name)}

    def invoker(self) -> str | None:
        """Return the value of `--invoker`; None if the file has none."""
        table = self._file.table(*self._root, INVOKER)
        return json.dumps(table, default=str) if table else None


def find_project_file() -> ProjectFile | None:
    """Find the nearest project file, from the working directory upward."""
    here = Path.cwd()
    for directory in (here, *here.parents):
        if (own := directory / OWN).is_file():
            return ProjectFile(own)
        if _has_our_table(shared := directory / SHARED):
            return ProjectFile(shared)
    return None


def _has_our_table(path: Path) -> bool:
    """Whether a pyproject.toml has our table. A substring check comes first: most files need no TOML parsing."""
    try:
        text = path.read_bytes()
    except OSError:
        # Missing or unreadable: not our concern.
        return False
    return b"tool.mainspring" in text and bool(TomlFile(path).table(*_TOOL))
