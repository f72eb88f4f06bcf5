"""Queues for Python on Redis. SAQ can also use PostgreSQL."""

from __future__ import annotations

from benchmarks.peers.peer import Peer, Service, Sizes, Variant, program

_NOT_ON_DISK = "Nothing: Redis keeps everything in memory here."
_TAKEN_IS_GONE = "A task that was taken is gone from Redis before it runs: if its worker dies, it is lost."
_TAKEN_COMES_BACK = "A task stays in Redis until it is acknowledged: if its worker dies, it is run again."
_START_REDIS = "redis-server"
_NO_GRAPHS = "chains and fan-ins: they are left to packages of their own, or to the tasks"

_CELERY_WORKER = Service(
    words=(
        "{bin}/celery", "-A", "benchmarks.peers.programs.celery", "worker", "-c", "{cores}", "--without-gossip",
        "--without-mingle", "--without-heartbeat", "-l", "WARNING",
    )
)  # fmt: skip


def _celery(name: str, variant: str, settings: str, durable: str) -> Variant:
    return Variant(
        name=name,
        store="redis",
        variant=variant,
        settings=f"a process per core, 128 tasks taken ahead for each, {settings}; results are kept only for fan-ins",
        durable=f"{_NOT_ON_DISK} {durable}",
        workers=(_CELERY_WORKER,),
        sizes=Sizes(tasks=5_000),
        environment={"C_FORCE_ROOT": "1"},
    )


CELERY = Peer(
    name="celery",
    title="Celery",
    driver=program("celery"),
    packages=("celery[redis]",),
    required=True,
    quick_start=(
        "pip install 'celery[redis]'",
        _START_REDIS,
        "celery -A tasks worker --loglevel=INFO",
        'python -c "from tasks import add; add.delay(4, 4)"',
    ),
    variants=(
        _celery("Celery", "early", "acknowledged when taken, as it comes", _TAKEN_IS_GONE),
        _celery("Celery, late acks", "late", "acknowledged when done", _TAKEN_COMES_BACK),
    ),
)

DRAMATIQ = Peer(
    name="dramatiq",
    title="Dramatiq",
    driver=program("dramatiq"),
    packages=("dramatiq[redis]",),
    quick_start=(
        "pip install 'dramatiq[redis]'",
        _START_REDIS,
        "dramatiq count_words",
        'python -c "from count_words import count_words; count_words.send(..)"',
    ),
    variants=(
        Variant(
            name="Dramatiq",
            store="redis",
            settings="a process per core, 8 threads each, as it comes",
            durable=f"{_NOT_ON_DISK} {_TAKEN_COMES_BACK}",
            workers=(
                Service(words=("{bin}/dramatiq", "benchmarks.peers.programs.dramatiq", "-p", "{cores}", "-t", "8")),
            ),
        ),
    ),
)

HUEY = Peer(
    name="huey",
    title="Huey",
    driver=program("huey_driver"),
    packages=("huey", "redis"),
    quick_start=(
        "pip install huey redis",
        _START_REDIS,
        "huey_consumer demo.huey",
        'python -c "from demo import add; add(1, 2)"',
    ),
    variants=(
        Variant(
            name="Huey",
            store="redis",
            settings="a process per core; results are not kept",
            durable=f"{_NOT_ON_DISK} {_TAKEN_IS_GONE}",
            workers=(
                Service(
                    words=(
                        "{bin}/huey_consumer",
                        "benchmarks.peers.programs.huey.huey",
                        "-w",
                        "{cores}",
                        "-k",
                        "process",
                        "-q",
                    )
                ),
            ),
        ),
    ),
)


def _taskiq(name: str, variant: str, durable: str) -> Variant:
    return Variant(
        name=name,
        store="redis",
        variant=variant,
        settings="a process per core on uvloop, 100 tasks at a time each; results are not kept",
        durable=f"{_NOT_ON_DISK} {durable}",
        workers=(
            Service(
                words=(
                    "{bin}/taskiq",
                    "worker",
                    "benchmarks.peers.programs.taskiq:broker",
                    "--workers",
                    "{cores}",
                    "--log-level",
                    "WARNING",
                )
            ),
        ),
    )


TASKIQ = Peer(
    name="taskiq",
    title="taskiq",
    driver=program("taskiq"),
    packages=("taskiq", "taskiq-redis", "uvloop"),
    lacks=_NO_GRAPHS,
    quick_start=(
        "pip install taskiq taskiq-redis",
        _START_REDIS,
        "taskiq worker broker:broker",
        "python broker.py",
    ),
    variants=(
        _taskiq("taskiq, list", "list", _TAKEN_IS_GONE),
        _taskiq("taskiq, stream", "stream", _TAKEN_COMES_BACK),
    ),
)


def _saq(name: str, store: str, durable: str, tasks: int) -> Variant:
    return Variant(
        name=name,
        store=store,
        variant=store,
        settings="two worker processes, 20 jobs at a time each; ended jobs are not kept",
        durable=durable,
        workers=(Service(words=("{bin}/saq", "benchmarks.peers.programs.saq.settings")),) * 2,
        sizes=Sizes(tasks=tasks),
    )


SAQ = Peer(
    name="saq",
    title="SAQ",
    driver=program("saq"),
    packages=("saq[redis,hiredis,postgres]", "psycopg[binary]"),
    lacks=_NO_GRAPHS,
    quick_start=("pip install 'saq[redis]'", _START_REDIS, "saq examples.simple.settings", "python examples/simple.py"),
    variants=(
        _saq("SAQ, Redis", "redis", f"{_NOT_ON_DISK} {_TAKEN_COMES_BACK}", 10_000),
        _saq(
            "SAQ, PostgreSQL", "postgres", "A job when its insert is committed; its start and its end likewise.", 5_000
        ),
    ),
)

BROKERS: tuple[Peer, ...] = (CELERY, DRAMATIQ, HUEY, TASKIQ, SAQ)
