"""Resolve secret references to values, on the worker only (WRK-5).

    env:NAME          variable of the worker
    file:/path        content of a file, without its trailing newline
    command:words     output of a program, without its trailing newline; no shell

A value goes into the environment of one task and nowhere else. Errors name the reference; they contain neither values
nor program output.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from mainspring.core.work.work import RESERVED
from mainspring.protocol.errors import Refused
from mainspring.secret_references import MAX_SECRET_BYTES, decode_secret, read_secret
from mainspring.worker.supervisor.process_groups import Processes

COMMAND_SECONDS = 10.0


class Secrets:
    """Resolves secret references."""

    def __init__(self, processes: Processes, environment: Mapping[str, str]) -> None:
        self._processes = processes
        self._environment = environment

    async def resolve(self, references: Mapping[str, str]) -> dict[str, str]:
        """Map variables to values. Raises Refused, which names the first reference that fails."""
        return {variable: await self._value(variable, reference) for variable, reference in references.items()}

    async def _value(self, variable: str, reference: str) -> str:
        source, _, rest = reference.partition(":")
        try:
            match source:
                case "env":
                    return self._from_environment(rest)
                case "file":
                    value = read_secret(Path(rest))
                case "command":
                    value = decode_secret(await self._from_command(shlex.split(rest)))
                case _:
                    raise Refused("use env:NAME, file:/path or command:words")
            if "\0" in value:
                raise Refused("contains a NUL")
        except Refused as error:
            raise Refused(f"secret {variable} ({reference}): {error}") from None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else "invalid reference"
            raise Refused(f"secret {variable} ({reference}): {why}") from None
        return value

    def _from_environment(self, name: str) -> str:
        if name.startswith(RESERVED) or name not in self._environment:
            raise Refused("the variable is not set on the worker, or not allowed")
        return self._environment[name]

    async def _from_command(self, argv: list[str]) -> bytes:
        try:
            code, printed = await self._processes.run(
                argv, self._environment, seconds=COMMAND_SECONDS, max_bytes=MAX_SECRET_BYTES + 1
            )
        except TimeoutError:
            raise Refused(f"the command timed out after {COMMAND_SECONDS:g} s") from None
        if code != 0:
            raise Refused(f"the command exited with {code}")
        return printed
