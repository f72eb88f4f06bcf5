"""The project's file: `mainspring.toml`, or `[tool.mainspring]` in `pyproject.toml`, here or in a directory above.

    server_url = "https://mainspring.example.org"      # for commands: where the server is, and whose work
    tenant = "acme"
    log_level = "info"                                 # for server and worker; also log_format

    [server]                                           # options of `mainspring server`, with _ for -
    port = 8485
    store = "postgresql://mainspring:${env:PGPASSWORD}@db/mainspring"

    [worker]                                           # options of `mainspring worker`
    pool = "gpu"

    [invoker]                                          # who answers prompts: for all that have an option --invoker
    command = ["llm", "-m", "small"]

The nearest one counts. It belongs to a project that may come from anywhere, so it has no token: a directory should not
be able to send one somewhere.
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
"""What counts for server and worker too, if they have an option of the name beside it."""
SECTIONS = ("server", "worker", "up")
INVOKER = "invoker"
_TOOL = ("tool", "mainspring")


class ProjectFile:
    """What a project says."""

    def __init__(self, path: Path) -> None:
        """Raises InvalidFile, also for a key that is not known."""
        self.path = path
        self._file = TomlFile(path)
        self._root = () if path.name == OWN else _TOOL
        self._file.allow(self._root, (*FOR_COMMANDS, *FOR_PROCESSES, *SECTIONS, INVOKER))

    def text(self, name: str) -> str | None:
        """A value that stands by itself."""
        return self._file.text_at(*self._root, name)

    def section(self, name: str, known: Iterable[str]) -> Mapping[str, object]:
        """The options of a process: its own, and those for all. Raises InvalidFile for one that there is not."""
        options = set(known)
        self._file.allow((*self._root, name), options)
        shared = {
            option: value
            for key, option in FOR_PROCESSES.items()
            if option in options and (value := self.text(key)) is not None
        }
        if INVOKER in options and (invoker := self.invoker()) is not None:
            shared[INVOKER] = invoker
        return {**shared, **self._file.table(*self._root, name)}

    def invoker(self) -> str | None:
        """Who answers prompts, as `--invoker` takes it; None if the file does not say."""
        table = self._file.table(*self._root, INVOKER)
        return json.dumps(table, default=str) if table else None


def find_project_file() -> ProjectFile | None:
    """The nearest file of a project, from the working directory upwards."""
    here = Path.cwd()
    for directory in (here, *here.parents):
        if (own := directory / OWN).is_file():
            return ProjectFile(own)
        if _has_our_table(shared := directory / SHARED):
            return ProjectFile(shared)
    return None


def _has_our_table(path: Path) -> bool:
    """Whether it may be ours: most are not, and are not read as TOML."""
    try:
        text = path.read_bytes()
    except OSError:
        # There is none, or none for us to read: whoever needs it is told by the tool that it belongs to.
        return False
    return b"tool.mainspring" in text and bool(TomlFile(path).table(*_TOOL))
