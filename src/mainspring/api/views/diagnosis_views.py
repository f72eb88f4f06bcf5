"""Views of diagnoses: JSON, Markdown or plain text, with other tenants reduced to counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from starlette.responses import Response

from mainspring.api.auth.principal import Principal
from mainspring.api.http.routing import JSON, Header, json_response
from mainspring.api.views.view_of import view_of
from mainspring.core.explain import diagnosis_report
from mainspring.core.explain.diagnosis import Diagnosis, WaitingSummary
from mainspring.core.explain.what_if import Outcome, Victim
from mainspring.core.model.task import Priority
from mainspring.protocol.rest.diagnosis import (
    BlockerView,
    DiagnosisView,
    ExpectedView,
    GateView,
    SuggestedActionView,
    VictimView,
    WaitingSumView,
    WhatIfView,
)

Form = Literal["json", "markdown", "plain"]
Accept = Annotated[str, Header("Accept")]
MARKDOWN, PLAIN = "text/markdown", "text/plain"
TEXTS = (MARKDOWN, PLAIN)
_FORMS: dict[str, Form] = {MARKDOWN: "markdown", PLAIN: "plain", JSON: "json"}


def answer(found: Diagnosis, principal: Principal, form: Form | None, accept: str) -> Response:
    """Respond with a diagnosis, redacted for the caller, in the requested format."""
    shown = redacted(found, principal)
    match form or _accepted(accept):
        case "markdown":
            return Response(diagnosis_report.as_markdown(shown), media_type=MARKDOWN)
        case "plain":
            return Response(diagnosis_report.as_plain(shown), media_type=PLAIN)
        case _:
            return json_response(diagnosis_view(shown))


def answer_what_if(
    outcome: Outcome, changes: Sequence[str], principal: Principal, form: Form | None, accept: str
) -> Response:
    """Respond with a what-if outcome, redacted for the caller, in the requested format."""
    shown = _redacted_outcome(outcome, principal)
    match form or _accepted(accept):
        case "markdown":
            return Response(diagnosis_report.outcome_as_markdown(shown, changes), media_type=MARKDOWN)
        case "plain":
            return Response(diagnosis_report.outcome_as_plain(shown, changes), media_type=PLAIN)
        case _:
            return json_response(_what_if_view(shown, changes))


def redacted(found: Diagnosis, principal: Principal) -> Diagnosis:
    """Remove what the caller may not see; it is counted instead."""
    seen = tuple(one for one in found.blockers if one.tenant is None or principal.sees(one.tenant))
    hidden = len(found.blockers) - len(seen)
    if not hidden:
        return found
    return msgspec.structs.replace(found, blockers=seen, more_blockers=found.more_blockers + hidden)


def diagnosis_view(found: Diagnosis) -> DiagnosisView:
    """Convert a diagnosis."""
    return view_of(
        DiagnosisView, found, reason=None if found.reason is None else found.reason.value,
        is_problem=found.is_problem(), is_stale=found.is_stale(),
        expected=None if found.expected is None else view_of(ExpectedView, found.expected),
        gates=[view_of(GateView, gate) for gate in found.gates],
        blockers=[view_of(BlockerView, one, priority=_name(one.priority)) for one in found.blockers],
        suggestions=[view_of(SuggestedActionView, action) for action in found.suggestions],
        run_id=found.run, task_id=found.task, priority=_name(found.priority),
    )  # fmt: skip


def sum_view(one: WaitingSummary) -> WaitingSumView:
    """Convert the count of one reason."""
    return view_of(WaitingSumView, one)


def _accepted(accept: str) -> Form:
    """Return the first supported format in a header; JSON if none."""
    named = (part.partition(";")[0].strip() for part in accept.split(","))
    return next((_FORMS[name] for name in named if name in _FORMS), "json")


def _redacted_outcome(outcome: Outcome, principal: Principal) -> Outcome:
    """Remove the names of victims that the caller may not see."""
    victims = tuple(
        one if principal.sees(one.tenant) else Victim(task="", tenant="", priority=one.priority, worker="")
        for one in outcome.victims
    )
    return msgspec.structs.replace(outcome, victims=victims)


def _what_if_view(outcome: Outcome, changes: Sequence[str]) -> WhatIfView:
    return view_of(
        WhatIfView, outcome, changes=list(changes), expected=view_of(ExpectedView, outcome.expected),
        preempts=[
            VictimView(
                task=one.task or None, tenant=one.tenant or None, priority=one.priority.name, worker=one.worker or None
            )
            for one in outcome.victims
        ],
    )  # fmt: skip


def _name(priority: Priority | None) -> str | None:
    return None if priority is None else priority.name
