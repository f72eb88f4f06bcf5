"""`mainspring submit`: submit runs of a job."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Printing, number_option, params_option, priority_option
from mainspring.cli.resource import Session, with_session

if TYPE_CHECKING:
    from mainspring.client.client import Client
    from mainspring.definitions.files.drafts import ParsedFile
    from mainspring.protocol.rest.runs import BulkItemResult, RunRequest

_STDIN = "-"
_REFUSED = 4
_MAX_SHOWN = 20
"""Maximum number of problems in a table."""


@click.command("submit")
@click.argument("file", metavar="FILE_OR_JOB", shell_complete=candidates.files_or_jobs)
@params_option
@priority_option("Priority of the run; P0 requires a grant.", "P2")
@click.option("--finish-by", metavar="TIME", help="Deadline: a time, or a duration such as 4h; the job's if omitted.")
@number_option("--count", "Number of runs to submit.")
@click.option(
    "--bulk", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="Submit one run per line of this JSON Lines file of parameters.",
)  # fmt: skip
@click.option(
    "--mode", type=click.Choice(["each", "all"]), default="each", show_default=True,
    help="With --count or --bulk: accept each valid run, or all or none.",
)  # fmt: skip
@click.option("--idempotency-key", metavar="KEY", help="Submitting again with the same key returns the same run.")
@click.option("--wait", is_flag=True, help="Wait for the run to end; exit with 1 unless it succeeds.")
@click.option("--watch", is_flag=True, help="Watch the run until it ends; implies --wait.")
@click.option("--timeout", metavar="DURATION", help="Give up after this long, such as 10m; exit with 124.")
@click.option("--dry-run", is_flag=True, help="Validate locally and print the request without sending it.")
@with_session
def submit(
    session: Session, file: str, params: tuple[str, ...], priority: str,
    finish_by: str | None, count: int | None, bulk: Path | None, mode: Literal["each", "all"],
    idempotency_key: str | None, wait: bool, watch: bool, timeout: str | None, dry_run: bool,
) -> None:  # fmt: skip
    """Submit a run of the job in FILE, or of an existing job.

    FILE is YAML or JSON; - for stdin. The schedule in a pipeline file is ignored; its parameters are used.

    \b
    Examples:
      mainspring submit etl.yaml -p day=2026-11-15 --watch
      mainspring submit etl --priority P1 --wait --timeout 10m
      mainspring submit etl --finish-by 4h
      mainspring submit etl.yaml --bulk days.jsonl --mode all
      mainspring submit etl.yaml --dry-run
    """
    from mainspring.cli.render.times import parse_future_time, parse_params, parse_timeout
    from mainspring.cli.resource_ids import submit_run
    from mainspring.protocol.errors import NotFound

    many = count is not None or bulk is not None
    if count is not None and bulk is not None:
        raise click.UsageError("--count and --bulk are mutually exclusive")
    if many and (wait or watch or (idempotency_key is not None and mode == "each")):
        raise click.UsageError(
            "--wait, --watch and --idempotency-key require a single run; the key also allows --mode all"
        )
    timeout_seconds = parse_timeout(timeout)
    given = parse_params(params)
    deadline = None if finish_by is None else parse_future_time(finish_by, "--finish-by", session.printing)
    definition = _read_file(file)
    if dry_run:
        from mainspring.cli.config.input_files import print_body

        if definition is None:
            raise click.UsageError(f"--dry-run requires a file; {file} is not one")
        print_body(definition.body, definition.name, session.printing)
        return
    client = session.client
    job = file if definition is None else _submit_job(client, definition)
    given = given if definition is None else {**definition.params, **given}
    if many:
        request = partial(client.request, job, priority=priority, finish_by=deadline)
        run_requests = _run_requests(request, given, count, bulk)
        lines = client.submit_many(run_requests, mode=mode, idempotency_key=idempotency_key)
        if not _print_bulk(lines, count, session.printing):
            sys.exit(_REFUSED)
        return
    submit_one = partial(
        client.submit, job, params=given, priority=priority, finish_by=deadline, idempotency_key=idempotency_key
    )
    run = submit_run(submit_one, NotFound(f"there is no file or job {job}"))
    if not wait and not watch:
        session.print_line(run, run.id, run.id)
        return
    from mainspring.cli.commands.runs.wait_for_run import wait_for_end
    from mainspring.cli.commands.runs.watch import watch_run

    (watch_run if watch else wait_for_end)(session.watch_client, run.id, session.printing, timeout_seconds)


def _read_file(file: str) -> ParsedFile | None:
    """Read the definition in a file; None if the argument is the name of a job."""
    from mainspring.cli.config.input_files import read_file
    from mainspring.definitions.job_file import read_definition

    path = Path(file)
    if file != _STDIN and not path.is_file():
        if path.suffix in {".yaml", ".yml", ".json"} or "/" in file or path.is_dir():
            raise click.UsageError(f"there is no file {file}")
        return None
    name, text = read_file(file)
    return read_definition(text, name)


def _submit_job(client: Client, definition: ParsedFile) -> str:
    """Submit the job and return its versioned name."""
    from mainspring.cli.config.input_files import located_faults

    with located_faults(definition):
        job = client.submit_job(definition.body)
    return f"{job.name}@{job.version}"


def _run_requests(
    request: Callable[..., RunRequest], params: dict[str, object], count: int | None, bulk: Path | None
) -> Iterator[RunRequest]:
    """Yield the request of each run lazily."""
    if bulk is None:
        for _ in range(count or 0):
            yield request(params=params)
        return
    if str(bulk) != _STDIN:
        # Validate the whole file before sending any of it: half of a file would be worse than none.
        for _ in _lines_of(bulk):
            pass
    for own in _lines_of(bulk):
        yield request(params={**params, **own})


def _lines_of(path: Path) -> Iterator[dict[str, object]]:
    import msgspec

    from mainspring.protocol.errors import InvalidFile

    with click.open_file(str(path), "rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield msgspec.json.decode(line, type=dict[str, object])
            except msgspec.DecodeError as error:
                raise InvalidFile(f"{path}:{number}:1: must be a JSON object with parameters: {error}") from error


def _print_bulk(lines: Iterable[BulkItemResult], total: int | None, printing: Printing) -> bool:
    """Print the outcome of each run, or in tables a summary and the first problems. Return whether all succeeded."""
    from mainspring.cli.render.output import print_rows
    from mainspring.cli.render.tables import BULK
    from mainspring.cli.render.terminal import with_progress_bar

    counts: Counter[bool] = Counter()

    def counted() -> Iterator[BulkItemResult]:
        for line in with_progress_bar(lines, "submitting", total):
            counts[line.problem is None] += 1
            yield line

    if not printing.is_human_readable:
        print_rows(counted(), BULK, printing)
        return not counts[False]
    problems = [line for line in counted() if line.problem is not None]
    click.echo(f"{counts[True]} of {counts.total()} runs submitted")
    if problems:
        print_rows(problems[:_MAX_SHOWN], BULK, printing)
    return not problems
