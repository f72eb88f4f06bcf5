"""Ours, on PostgreSQL and on SQLite: a real server and a real worker, with history, fencing and every policy on."""

from __future__ import annotations

from benchmarks.peers.peer import Peer, Service, Sizes, Variant, program
from tests.server_settings import SET_GENEROUS

_COMMAND = ("{python}", "-m", "mainspring.cli.main")
_SETTINGS = (
    "one server, one worker with a warm process per core; history, fencing, quotas, fair sharing, retries and timeouts "
    "on; limits on requests raised"
)
_SIZES = Sizes(tasks=20_000, singly=1_000)


def _variant(name: str, store: str, url: str, durable: str) -> Variant:
    server = Service(
        words=(
            *_COMMAND, "server", "--store", url, "--port", "{port0}", "--data-dir", "{folder}/data", *SET_GENEROUS,
            "--ready-file", "{folder}/server.ready",
        ),
        ready="{folder}/server.ready",
    )  # fmt: skip
    worker = Service(
        words=(
            *_COMMAND, "worker", "--name", "w", "--cpu", "8", "--memory", "64Gi", "--state-dir", "{folder}/state",
            "--as-root", "--server", "http://127.0.0.1:{port0}", "--handlers", "{folder}/mainspring_handlers.py",
            "--children", "{cores}",
        ),
    )  # fmt: skip
    return Variant(
        name=name,
        store=store,
        settings=_SETTINGS,
        durable=durable,
        services=(server,),
        workers=(worker,),
        sizes=_SIZES,
        copies=("mainspring_handlers.py",),
    )


OURS = Peer(
    name="mainspring",
    title="Mainspring",
    driver=program("mainspring_driver"),
    lock="requirements.lock",
    quick_start=("(clone the project)", "make up"),
    required=True,
    variants=(
        _variant(
            "Mainspring, PostgreSQL",
            "postgres",
            "{postgres}",
            "A run before its submission is answered; each assignment and each result before it is visible. "
            "Every change of state is kept as history, in the same commit.",
        ),
        _variant(
            "Mainspring, SQLite",
            "sqlite",
            "sqlite:///{folder}/store/mainspring.db",
            "The same as on PostgreSQL: synchronous is FULL.",
        ),
    ),
)
