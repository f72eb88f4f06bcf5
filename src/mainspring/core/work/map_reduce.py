"""Map-reduce over items with an AI invoker: the `work` of such a task (FLD-8).

    {"map": {"prompt": "Categorize: {{title}}", "output": ["severity"]},
     "input": {"from": {"type": "csv", "path": "bugs.csv"}},
     "reduce": {"type": "json"}, "directory": "/srv/pipelines/bugs"}

The prompt is rendered for each item of the input and sent to the invoker; the answers become rows, and the rows one
result. `mapreduce/` executes it, in its own process, on the worker.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from typing import Literal

import msgspec

from mainspring.core.expressions import engine as expressions
from mainspring.core.work.field_texts import fault_in_import_path, fault_in_secret
from mainspring.protocol.errors import Fault, faults_at

MAX_CONCURRENCY = 64
MAX_ITEM_ATTEMPTS = 10
MAX_OUTPUT_FIELDS = 100
MAX_INVOCATION_SECONDS = 3_600.0
MAX_RETRY_DELAY_SECONDS = 600.0
MAX_ITEMS = 1_000_000
OWN_NAMES = frozenset({"item", "index", "params"})
"""Names in a prompt besides the item's fields. A field with such a name is reached through `item`."""
REDUCE_NAMES = frozenset({"results", "count", "failed", "params"})
ANSWER = "answer"
"""Field of a row with the answer, if the map names no fields."""
WORK_VARIABLE = "MAINSPRING_MAP_WORK"
"""Environment variable with the work as JSON, including the invoker."""
KEY_VARIABLE = "MAINSPRING_INVOKER_KEY"
"""Environment variable with the invoker's API key, resolved by the worker."""
PYTHON_PATH_VARIABLE = "MAINSPRING_PYTHON_PATH"
"""Environment variable with the search path for invoker functions, after the directory of the work."""
FAILURE_VARIABLE = "MAINSPRING_FAILURE"
"""Environment variable with the file in which the process reports its failure class."""
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_URL = re.compile(r"https?://(?P<user>[^/?#@\s]*@)?(\[[0-9A-Fa-f:.]+\]|[^/?#@:\s\[\]]+)(:[0-9]{1,5})?([/?][^\s#]*)?")
_KINDS = ("command", "url", "python", "socket")


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    pass


class ItemFile(_Part, frozen=True, kw_only=True):
    """A file with items: a CSV with a header, or a JSON list of objects."""

    type: Literal["csv", "json"]
    path: str
    """Relative to the directory of the work."""
    delimiter: str = ","
    encoding: str = "utf-8"
    """Of a CSV. A byte order mark is recognized."""


class Input(_Part, frozen=True, kw_only=True):
    """Source of the items: a file, or the definition itself."""

    source: ItemFile | None = msgspec.field(default=None, name="from")
    items: tuple[dict[str, msgspec.Raw], ...] | None = None
    limit: int | None = None
    """Maximum number of items."""


class OnItemFailure(StrEnum):
    """Reaction to an item that fails for good."""

    FAIL = "fail"
    """Finish the other items, then fail the task. The next attempt processes only the missing ones."""
    SKIP = "skip"
    """Build the result from the successful items, and list the failed ones."""


class MapStep(_Part, frozen=True, kw_only=True):
    """Prompt for each item."""

    prompt: str
    """A template over the item's fields, and `item`, `index` and `params`."""
    output: tuple[str, ...] = ()
    """Required fields of the answer, as JSON; none: the answer is text."""
    concurrency: int = 4
    attempts: int = 3
    """Per item."""
    retry_delay_seconds: float = 1.0
    """Before the second attempt at an item; doubled before each further one."""
    timeout_seconds: float = 120.0
    """Per invocation."""
    on_failure: OnItemFailure = OnItemFailure.FAIL


class ReduceKind(StrEnum):
    """Format of the result."""

    JSON = "json"
    TABLE = "table"
    CSV = "csv"
    LIST = "list"
    PROMPT = "prompt"


class ReduceStep(_Part, frozen=True, kw_only=True):
    """How the rows become the result."""

    type: ReduceKind = ReduceKind.JSON
    prompt: str | None = None
    """For `prompt`: a template over `results` (the rows as JSON), `count`, `failed` and `params`."""
    output: tuple[str, ...] = ()
    """For `prompt`: required fields of the answer; none: it is text."""


class Invoker(_Part, frozen=True, kw_only=True):
    """Answers prompts. Exactly one of `command`, `url`, `python` and `socket`."""

    command: tuple[str, ...] | None = None
    """A program that reads the prompt from stdin and prints the answer."""
    url: str | None = None
    """An endpoint in the OpenAI chat format, such as http://127.0.0.1:11434/v1/chat/completions."""
    model: str | None = None
    """For `url`."""
    key: str | None = None
    """For `url`: reference to the API key, `env:NAME`, `file:/path` or `command:words`. Never the key itself."""
    python: str | None = None
    """A sync or async function, `package.module:function`, that takes the prompt and returns the answer."""
    socket: str | None = None
    """Unix socket of another process that answers (`PipelineScheduler(ai_invoker=..)`)."""


def faults_in(step: MapStep, given: Input, reduce: ReduceStep, where: str) -> Iterator[Fault]:
    """Yield the faults in a map, its input and its reduce, each with its path.

    The fields of items in a file are known only when it is read: until then a prompt may use any name.
    """
    yield from _faults_in_input(given, f"{where}.input")
    names = None if given.items is None else OWN_NAMES.union(*given.items)
    yield from _faults_in_map(step, names, f"{where}.map")
    yield from _faults_in_reduce(reduce, f"{where}.reduce")


def faults_in_invoker(invoker: Invoker, where: str) -> Iterator[Fault]:
    """Yield the faults in an invoker."""
    kinds = [kind for kind in _KINDS if getattr(invoker, kind) is not None]
    if len(kinds) != 1:
        found_kinds = " and ".join(kinds) if kinds else "none of them"
        yield Fault(where, f"must have exactly one of {', '.join(_KINDS)}; it has {found_kinds}")
    if invoker.command is not None and (not invoker.command or not invoker.command[0].strip()):
        yield Fault(f"{where}.command", "must begin with a program")
    if any("\0" in word for word in invoker.command or ()):
        yield Fault(f"{where}.command", "contains NUL")
    if invoker.url is not None and (fault := _fault_in_url(invoker.url)) is not None:
        yield Fault(f"{where}.url", fault)
    if invoker.python is not None and (fault := fault_in_import_path(invoker.python)) is not None:
        yield Fault(f"{where}.python", fault)
    if invoker.socket is not None and (not invoker.socket or "\0" in invoker.socket):
        yield Fault(f"{where}.socket", "must be the path of a Unix socket")
    if invoker.key is not None and (fault := fault_in_secret(invoker.key)) is not None:
        yield Fault(f"{where}.key", f"{fault}, never the key itself")
    for field in ("model", "key"):
        if invoker.url is None and getattr(invoker, field) is not None:
            yield Fault(f"{where}.{field}", "requires url")


def faults_in_relative_path(path: str, where: str) -> Iterator[Fault]:
    """Yield the faults in a path relative to the directory of the work."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if "\0" in path:
        yield Fault(where, "contains NUL")
    elif path.startswith("/") or ".." in parts or not parts:
        yield Fault(where, "must be a relative path without ..")


def _faults_in_input(given: Input, where: str) -> Iterator[Fault]:
    if (given.source is None) == (given.items is None):
        yield Fault(where, "must have exactly one of from and items")
    if given.limit is not None and not 1 <= given.limit <= MAX_ITEMS:
        yield Fault(f"{where}.limit", f"must be from 1 to {MAX_ITEMS}")
    source = given.source
    if source is None:
        return
    yield from faults_in_relative_path(source.path, f"{where}.from.path")
    if len(source.delimiter) != 1 or source.delimiter in '"\r\n\0':
        yield Fault(f"{where}.from.delimiter", "must be one character other than a quote or a newline")
    try:
        "".encode(source.encoding)
    except (LookupError, ValueError):
        yield Fault(f"{where}.from.encoding", f"unknown encoding {source.encoding[:40]!r}")


def _faults_in_map(step: MapStep, names: Collection[str] | None, where: str) -> Iterator[Fault]:
    yield from faults_at(f"{where}.prompt", _fault_in_prompt(step.prompt, names))
    yield from _faults_in_output(step.output, where)
    for name, value, least, most in (
        ("concurrency", step.concurrency, 1, MAX_CONCURRENCY),
        ("attempts", step.attempts, 1, MAX_ITEM_ATTEMPTS),
        ("retry_delay_seconds", step.retry_delay_seconds, 0, MAX_RETRY_DELAY_SECONDS),
        ("timeout_seconds", step.timeout_seconds, 0.001, MAX_INVOCATION_SECONDS),
    ):
        if not least <= value <= most:
            yield Fault(f"{where}.{name}", f"must be from {least:g} to {most:g}")


def _faults_in_reduce(step: ReduceStep, where: str) -> Iterator[Fault]:
    yield from _faults_in_output(step.output, where)
    if step.type is not ReduceKind.PROMPT:
        for field in ("prompt", "output"):
            if getattr(step, field):
                yield Fault(f"{where}.{field}", "requires the type prompt")
    elif step.prompt is None:
        yield Fault(f"{where}.prompt", "is required for the type prompt")
    else:
        yield from faults_at(f"{where}.prompt", _fault_in_prompt(step.prompt, REDUCE_NAMES))


def _faults_in_output(names: Sequence[str], where: str) -> Iterator[Fault]:
    if len(names) > MAX_OUTPUT_FIELDS:
        yield Fault(f"{where}.output", f"has more than {MAX_OUTPUT_FIELDS} fields")
        return
    for number, name in enumerate(names):
        if not _FIELD.fullmatch(name):
            why = "must be 1 to 64 letters, digits and underscores, not beginning with a digit"
            yield Fault(f"{where}.output[{number}]", why)
        elif name in names[:number]:
            yield Fault(f"{where}.output[{number}]", f"duplicate field {name}")


def _fault_in_prompt(prompt: str, names: Collection[str] | None) -> str | None:
    """Return what is wrong with a prompt that may use these names (None: any), or None."""
    if not prompt.strip():
        return "is empty"
    return expressions.check_template(prompt, names)


def _fault_in_url(url: str) -> str | None:
    found = _URL.fullmatch(url)
    if found is None or not url.isprintable():
        return "must be a URL that begins with http:// or https://"
    return "must not contain a user or password: use `key`, by reference" if found["user"] else None
