"""Fields of a pipeline file other than its job's: names, targets and readers.

To add a field: a line in one of the tables, and its description in `definitions/pipeline_descriptions.py`.
"""

from __future__ import annotations

import re
from functools import partial

import msgspec

from mainspring.core.admission.validate_job import NAME
from mainspring.core.expressions.engine import check_template
from mainspring.core.model.webhook_events import EVENTS
from mainspring.core.schedules.schedule_spec import COMPUTED_NAMES, MAX_ACTIVE
from mainspring.definitions.files.field_values import (
    Field,
    Inner,
    Inside,
    ListOf,
    OneOf,
    as_count,
    as_flag,
    as_number,
    as_path_inside,
    as_seconds,
    as_text,
    count_between,
    gather,
    mismatch,
    unknown,
)
from mainspring.definitions.files.sources import Entry, Node, Position, plain
from mainspring.definitions.pipeline_params import TYPE_CHECKS, TYPE_NAMES
from mainspring.definitions.schedule_file import SCHEDULE_FIELDS

DEFAULT_ATTEMPTS = 3
RETRY_DELAY_SECONDS = 60.0
"""Defaults of the pipeline format (RTY-2)."""
MAX_ATTEMPTS = 5
_MAX_TITLE_LENGTH = 200
_MAX_DELAY_MS = 7 * 86_400_000
_MAX_WINDOW_MINUTES = 366 * 1_440
_PARAM_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PERCENT = re.compile(r"(\d{1,3})%?")
_URL = re.compile(r"https?://\S+|\$\{(?:env|file):[^}]+\}\S*")
_TEMPLATE = re.compile(r"\{\{|\{%")


class Param(msgspec.Struct, frozen=True, kw_only=True):
    """A declared parameter."""

    type: str = "text"
    """text, integer, number, boolean, date or json."""
    default: object = None
    """A value, or a template over `scheduled_for`."""
    required: bool = False

    @property
    def is_computed(self) -> bool:
        """Whether its default is a template."""
        return isinstance(self.default, str) and _TEMPLATE.search(self.default) is not None


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription to run results."""

    url: str
    """As written; may contain `${env:HOOK}`."""
    events: tuple[str, ...]
    """Event names of webhooks (`core/model/webhook_events.py`): `run.failed`, .."""


class SharedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A concurrency group of several pipelines."""

    name: str
    most: int | None = None
    """None: defined elsewhere."""


class ParsedNotice(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed notice, with the words that are not supported yet."""

    notice: Notice
    ignored: tuple[tuple[str, Position], ...] = ()


_EVENTS_BY_NAME = {
    "failure": ("run.failed", "run.timed_out"),
    "success": ("run.succeeded",),
    "partial": ("run.partial",),
    "cancelled": ("run.cancelled",),
    "complete": EVENTS,
}
"""Words of `notify.on`, and their webhook events."""
_UNSUPPORTED_EVENTS = ("late", "recovered")
NOTIFY_EVENTS = (*_EVENTS_BY_NAME, *_UNSUPPORTED_EVENTS)


def as_title(node: Node) -> str:
    """Read a display name: one printable line."""
    title = as_text(node)
    if not title.isprintable() or len(title) > _MAX_TITLE_LENGTH:
        raise mismatch(node, f"must be one line of at most {_MAX_TITLE_LENGTH} printable characters")
    return title


def _tries(node: Node) -> int:
    """Read `maxRetries`, which counts the first attempt; 0 and 1 both mean one (RTY-2)."""
    return max(1, count_between(node, 0, MAX_ATTEMPTS))


def _milliseconds(node: Node) -> float:
    delay = as_number(node)
    if not 0 < delay <= _MAX_DELAY_MS:
        raise mismatch(node, f"must be from 1 to {_MAX_DELAY_MS} milliseconds")
    return delay / 1_000


def _minutes(node: Node) -> float:
    minutes = as_number(node)
    if not 0 < minutes <= _MAX_WINDOW_MINUTES:
        raise mismatch(node, f"must be more than 0 and at most {_MAX_WINDOW_MINUTES} minutes")
    return minutes * 60


def _window(node: Node) -> object:
    """Read how late a run may start, in seconds; None: unlimited."""
    return Inside("`window`", WINDOW)(node).get("max_delay_seconds")


def _condition(node: Node) -> object:
    """Read a condition: a mapping, or an expression."""
    return Inside("`condition`", CONDITION)(node) if isinstance(node.value, dict) else {"expression": as_text(node)}


def _percent(node: Node) -> int:
    found = _PERCENT.fullmatch(node.text)
    if found is None or not 1 <= int(found[1]) <= 100:
        raise mismatch(node, "must be from 1% to 100%")
    return int(found[1])


def _url(node: Node) -> str:
    url = as_text(node)
    if not _URL.fullmatch(url):
        raise mismatch(node, "must be a URL that begins with http:// or https://", "or a reference: ${env:HOOK}")
    return url


def _end(node: Node) -> tuple[str, Position]:
    word = as_text(node)
    if word not in NOTIFY_EVENTS:
        raise unknown(node, f"unknown event `{word}`", word, NOTIFY_EVENTS)
    return word, node.place


def _tenant(node: Node) -> str:
    name = as_text(node)
    if not NAME.fullmatch(name):
        raise mismatch(node, "must be 1 to 128 of a to z, 0 to 9, dot, hyphen and underscore")
    return name


def _at_once(node: Node) -> int:
    return count_between(node, 1, MAX_ACTIVE)


def as_notices(node: Node) -> list[ParsedNotice]:
    """Read notices: `{on: [failure], url: ..}`, `{on_failure: URL}`, or a list of these."""
    items = node.value if isinstance(node.value, list) else [node]
    return [wanted for wanteds in gather(partial(_notices, item) for item in items) for wanted in wanteds]


def _notices(node: Node) -> list[ParsedNotice]:
    values = Inside("`notify`", NOTIFY)(node)
    found = [
        ParsedNotice(notice=Notice(url=str(url), events=_EVENTS_BY_NAME[key.removeprefix("on_")]))
        for key, url in values.items()
        if key.startswith("on_")
    ]
    if ("url" in values) != ("on" in values):
        missing = "a `url`" if "on" in values else "an `on`, such as [failure]"
        raise mismatch(node, f"`notify` needs {missing}")
    if "on" in values:
        words: list[tuple[str, Position]] = values["on"]  # type: ignore[assignment]  # its reader gives these
        events = tuple(event for word, _ in words for event in _EVENTS_BY_NAME.get(word, ()))
        ignored = tuple(word for word in words if word[0] in _UNSUPPORTED_EVENTS)
        notice = Notice(url=str(values["url"]), events=tuple(dict.fromkeys(events)))
        found.append(ParsedNotice(notice=notice, ignored=ignored))
    return found


def as_params(node: Node) -> dict[str, Param]:
    """Read declared parameters: a mapping each, or just a default."""
    if not isinstance(node.value, dict):
        raise mismatch(node, "must be a mapping of names to {type: .., default: ..}")
    params = gather(partial(_param, key, entry) for key, entry in node.value.items())
    return dict(zip(node.value, params, strict=True))


def _param(key: str, entry: Entry) -> Param:
    at = Node(value=None, place=entry.place)
    if not _PARAM_NAME.fullmatch(key):
        raise mismatch(at, f"`{key}` is not a valid parameter name", "use letters, digits and underscores")
    if not isinstance(entry.node.value, dict):
        return _checked(_kind_of(entry.node), entry.node, required=False)
    values = Inside(f"`{key}`", PARAM)(entry.node)
    default: Node | None = values.get("default")  # type: ignore[assignment]  # its reader gives the node
    return _checked(str(values.get("type", "text")), default, required=bool(values.get("required")))


def _checked(kind: str, node: Node | None, *, required: bool) -> Param:
    """Return a parameter whose default has its type."""
    default = None if node is None else plain(node)
    if node is None or default is None:
        return Param(type=kind, required=required)
    if isinstance(default, str) and _TEMPLATE.search(default):
        fault = check_template(default, COMPUTED_NAMES)
        if fault is not None:
            raise mismatch(node, f"`default` can't be computed: {fault}")
        if kind not in {"text", "date"}:
            raise mismatch(node, f"a template evaluates to a string, not {kind}")
        return Param(type=kind, default=default, required=required)
    if kind in {"text", "date"} and not isinstance(default, list | dict):
        default = node.text
    if not TYPE_CHECKS[kind](default):
        raise mismatch(node, f"`default` must be {TYPE_NAMES[kind]}")
    return Param(type=kind, default=default, required=required)


def _kind_of(node: Node) -> str:
    match node.value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case list() | dict():
            return "json"
        case _:
            return "text"


RETRY_POLICY: dict[str, Inner] = {
    "maxRetries": ("max_attempts", _tries),
    "retryDelayMs": ("retry_delay_seconds", _milliseconds),
}
WINDOW: dict[str, Inner] = {"maxDelayMinutes": ("max_delay_seconds", _minutes)}
CONDITION: dict[str, Inner] = {
    "file_exists": ("file_exists", as_path_inside),
    "expression": ("expression", as_text),
}
CONCURRENCY: dict[str, Inner] = {
    "group": ("group", as_text),
    "max": ("max", _at_once),
    "when_busy": ("when_busy", OneOf(("queue", "skip", "cancel_running"))),
}
SLA: dict[str, Inner] = {
    "finish_within": ("finish_within_seconds", as_seconds),
    "start_within": ("start_within_seconds", as_seconds),
    "warn_at": ("warn_at_percent", _percent),
}
NOTIFY: dict[str, Inner] = {
    "on": ("on", ListOf(_end)),
    "url": ("url", _url),
    "on_failure": ("on_failure", _url),
    "on_success": ("on_success", _url),
    "on_complete": ("on_complete", _url),
}
PARAM: dict[str, Inner] = {
    "type": ("type", OneOf(tuple(TYPE_CHECKS))),
    "default": ("default", lambda node: node),
    "required": ("required", as_flag),
    "description": ("description", as_text),
}
PIPELINE_FIELDS = {
    "name": Field(("title",), as_title),
    "params": Field(("params",), as_params),
    "tenant": Field(("tenant",), _tenant),
    "concurrency": Field(("concurrency",), Inside("`concurrency`", CONCURRENCY)),
    "sla": Field(("sla",), Inside("`sla`", SLA)),
    "notify": Field(("notices",), as_notices),
}
"""`schedule`, `on` and `priority` are read by `definitions/pipeline_schedules.py`."""
SCHEDULE_KEYS = ("schedule", "on", "priority")
BLOCK_FIELDS = {
    **{key: field for key, field in SCHEDULE_FIELDS.items() if key not in {"name", "job", "trigger", "params"}},
    "condition": Field(("condition",), _condition),
    "missedExecution": Field(("missed",), OneOf(("run", "skip"))),
    "window": Field(("max_delay_seconds",), _window),
    "concurrency.max": Field(("max_active",), as_count),
    "concurrency.when_busy": Field(("overlap",), as_text),
}
"""Fields of a schedule block, and those inherited from the pipeline."""
FROM_PIPELINE = frozenset({"priority", "concurrency.max", "concurrency.when_busy"})
BESIDE_BLOCK = ("retryPolicy", "notify")
"""Fields in a schedule block that are not the schedule's."""
ON_KEYS = ("schedule", "every", "event", "manual")
