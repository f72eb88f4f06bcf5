"""Python executor: calls functions in warm children (WRK-3); a process per call would cost 100 times as much.

The attempts of a lease go to one child, a slice at a time. Each confinement has its own children.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from mainspring.core.work.work import ImportedFunction, ServedFunction
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Refused, Unavailable
from mainspring.protocol.wire import Outcome
from mainspring.worker.artifacts.transfer import Artifacts
from mainspring.worker.executors.executor import AttemptHandle, failure
from mainspring.worker.executors.python.child_link import ChildLink
from mainspring.worker.executors.python.child_pool import ChildPool
from mainspring.worker.executors.secret_values import Secrets
from mainspring.worker.logs.capture import Mask
from mainspring.worker.sandbox.confinement import Confinement, confinement_of
from mainspring.worker.sandbox.sandbox import Sandboxes
from mainspring.worker.supervisor.process_groups import Processes
from mainspring.worker.supervisor.supervisor_settings import SupervisorSettings


class FunctionExecutor:
    """Calls functions in children."""

    max_batch = 64
    """About 60 ms of short calls: others wait 100 ms for a child before one more is started."""

    def __init__(
        self,
        state_dir: Path,
        settings: SupervisorSettings,
        clock: Clock,
        processes: Processes,
        secrets: Secrets,
        sandboxes: Sandboxes,
    ) -> None:
        self._state_dir = state_dir
        self._settings = settings
        self._clock = clock
        self._processes = processes
        self._secrets = secrets
        self._sandboxes = sandboxes
        self._artifacts = Artifacts(state_dir, settings)
        self._numbers = itertools.count(1)
        self._pools: dict[Confinement, ChildPool] = {}

    async def run(self, handles: Sequence[AttemptHandle]) -> None:
        """Call these one after another in one child, up to the first with another confinement."""
        secrets = await self._resolve(handles)
        handles = [handle for handle in handles if not handle.has_ended]
        if not handles:
            return
        confinement = self._confinement_of(handles[0])
        pool = self._pool_of(confinement)
        try:
            child = await pool.take(handles[0].assignment.memory_bytes)
        except (Unavailable, Refused, OSError) as error:
            handles[0].end(Outcome.FAILED, error=failure("Child", str(error), error_class="infrastructure"))
            return
        first = handles[0].work
        batch = list(
            itertools.takewhile(
                lambda handle: handle.work is first or self._confinement_of(handle) == confinement, handles
            )
        )
        try:
            for handle in batch:
                if handle.work is not None and handle.work.fetch:
                    await child.fetch(handle)
            await child.run([handle for handle in batch if not handle.has_ended], secrets)
        finally:
            await pool.give_back(child)

    async def close(self) -> None:
        """End the children."""
        for pool in self._pools.values():
            await pool.close()

    def _confinement_of(self, handle: AttemptHandle) -> Confinement:
        assert handle.work is not None
        return confinement_of(handle.work, self._settings.isolation)

    def _pool_of(self, confinement: Confinement) -> ChildPool:
        if confinement not in self._pools:
            self._pools[confinement] = ChildPool(
                lambda: self._child(confinement),
                warm=self._settings.warm_children(),
                limit=self._settings.max_children,
                is_kept=not confinement.is_sandbox(),
            )
        return self._pools[confinement]

    def _child(self, confinement: Confinement) -> ChildLink:
        number = next(self._numbers)
        return ChildLink(
            self._state_dir,
            self._settings,
            self._clock,
            self._processes,
            self._sandboxes,
            confinement,
            self._artifacts,
            number,
        )

    async def _resolve(self, handles: Sequence[AttemptHandle]) -> dict[str, dict[str, str]]:
        """Resolve secrets by attempt. An attempt whose secrets can't be resolved ends."""
        secrets: dict[str, dict[str, str]] = {}
        for handle in handles:
            assert isinstance(handle.work, ImportedFunction | ServedFunction)
            if not handle.work.secrets:
                continue
            try:
                values = secrets[handle.attempt] = await self._secrets.resolve(handle.work.secrets)
                handle.mask = Mask(values.values())
            except Refused as error:
                handle.end(Outcome.FAILED, error=failure("Secret", str(error), error_class="permanent"))
        return secrets
