"""Filter grammar: meaning of terms, and reporting of all errors (UX 2.2)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.model.task import Priority
from mainspring.core.query.filters import MAX_FILTER_LENGTH, Filter, ListKind, matches, read_filter
from mainspring.protocol.errors import Fault, Refused

NOW = datetime(2026, 11, 16, 6, 30, tzinfo=UTC)


def read(text: str, listed: ListKind = ListKind.RUNS) -> Filter:
    """Parse a filter."""
    return read_filter(text, listed, now=NOW, where="query:q")


def faults(text: str, listed: ListKind = ListKind.RUNS) -> list[Fault]:
    """Return the faults of a filter."""
    with pytest.raises(Refused) as refused:
        read(text, listed)
    return list(refused.value.faults)


def test_all_terms_are_combined_with_and() -> None:
    wanted = read(
        "state:failed,timed-out tenant:acme priority:p0 label.team=ml label.env:prod job:etl-* schedule:nightly"
    )

    assert wanted == Filter(
        states=("FAILED", "TIMED_OUT"),
        tenant="acme",
        priority=Priority.P0,
        labels=(("team", "ml"), ("env", "prod")),
        job="etl-*",
        schedule="nightly",
    )


def test_terms_of_tasks() -> None:
    wanted = read("state:QUEUED wait>1h30m run:run_1 worker=w1 name:load", ListKind.TASKS)

    assert wanted == Filter(
        states=("QUEUED",), since_before=NOW - timedelta(minutes=90), run="run_1", worker="w1", name="load"
    )


def test_an_empty_filter_has_no_restriction() -> None:
    assert read(" \n ") == Filter()
    assert read("tenant:acme") != Filter()


@pytest.mark.parametrize(
    ("text", "since", "before"),
    [
        ("created>2026-11-01", datetime(2026, 11, 1, tzinfo=UTC), None),
        ("created<2026-11-01T06:30:00+02:00", None, datetime(2026, 11, 1, 4, 30, tzinfo=UTC)),
        ("created>2h", NOW - timedelta(hours=2), None),
        ("created>7d created<1d", NOW - timedelta(days=7), NOW - timedelta(days=1)),
    ],
)
def test_times_are_dates_times_or_ages(text: str, since: datetime | None, before: datetime | None) -> None:
    wanted = read(text)

    assert (wanted.created_since, wanted.created_before) == (since, before)


def test_values_with_spaces_need_quotes() -> None:
    assert read("label.team='data science'").labels == (("team", "data science"),)
    assert read('label.team="it\'s us"').labels == (("team", "it's us"),)


def test_pipeline_is_an_alias_of_job() -> None:
    assert read("Pipeline:etl") == read("job:etl")


@pytest.mark.parametrize(
    ("text", "listed", "why"),
    [
        ("stat:queued", ListKind.RUNS, "`stat:queued` is unknown, did you mean state?"),
        ("colour:red", ListKind.JOBS, "`colour:red` is unknown; known: job, label, tenant"),
        ("state:queud", ListKind.TASKS, "`state:queud` is not a state of tasks, did you mean QUEUED?"),
        ("priority:p7", ListKind.RUNS, "`priority:p7` is not a priority; known: P0, P1, P2"),
        ("etl", ListKind.RUNS, "`etl` has no field name: write job:etl"),
        ("etl", ListKind.TASKS, "`etl` has no field name: write name:etl"),
        ("wait>5m", ListKind.RUNS, "`wait>5m` applies to tasks, not to runs"),
        ("wait<5m", ListKind.TASKS, "`wait<5m` needs > after wait"),
        ("wait>long", ListKind.TASKS, "`wait>long` needs a duration such as 90s, 5m or 1h30m"),
        ("wait>99999999d", ListKind.TASKS, "`wait>99999999d` goes back more than 36500 days"),
        ("created>2026-13-01", ListKind.RUNS, "`created>2026-13-01` needs a date or time such as"),
        ("created>0001-01-01T00:00:00+23:00", ListKind.RUNS, "needs a date or time such as"),
        ("created>soon", ListKind.RUNS, "`created>soon` needs a date such as 2026-11-01, or an age such as 2h"),
        ("created:2h", ListKind.RUNS, "`created:2h` needs < or > after created"),
        ("tenant:", ListKind.RUNS, "`tenant:` has no value"),
        ("label=ml", ListKind.RUNS, "`label=ml` must have the form label.name=value"),
        ("label.=ml", ListKind.RUNS, "`label.=ml` must have the form label.name=value"),
        ("label.a=x label.a=y", ListKind.RUNS, "`label.a=y` gives a second value for the same label"),
        ("state:failed state:partial", ListKind.RUNS, "use state:a,b for either"),
        ("tenant:a tenant:b", ListKind.RUNS, "`tenant:b` contradicts an earlier term"),
        ('job:"etl state:failed', ListKind.RUNS, '`job:"etl state:failed` has an unterminated quote'),
        ("job:a\0", ListKind.RUNS, "contains NUL"),
        ("x" * (MAX_FILTER_LENGTH + 1), ListKind.RUNS, "must have at most 2000 characters"),
    ],
)
def test_an_invalid_term_is_explained(text: str, listed: ListKind, why: str) -> None:
    found = faults(text, listed)

    assert why in found[-1].why
    assert {fault.where for fault in found} == {"query:q"}


def test_all_errors_are_reported_at_once() -> None:
    found = faults("stat:queued priority:p9 tenant:acme wait>1m")

    assert [fault.why.split("` ")[0] for fault in found] == ["`stat:queued", "`priority:p9", "`wait>1m"]


_WORDS = ["state", "tenant", "label.", "created", "wait", "job", "2h", "2026-11-01", "p0", "queued", "9" * 400, "d"]
_PIECES = st.sampled_from([*_WORDS, *":=<>\"' ,*\0\ud800"])


@given(text=st.text() | st.lists(_PIECES).map("".join), listed=st.sampled_from(ListKind))
def test_any_text_is_parsed_or_refused(text: str, listed: ListKind) -> None:
    try:
        wanted = read(text, listed)
    except Refused:
        assert faults(text, listed)
        return
    assert (wanted == Filter()) == (not text.strip())


@given(
    labels=st.dictionaries(st.from_regex(r"[a-z0-9._/-]{1,20}", fullmatch=True), st.text("ab c:=<>'*", min_size=1)),
    job=st.from_regex(r"[a-z0-9._*-]{1,20}", fullmatch=True),
)
def test_a_formatted_filter_parses_to_the_same_restriction(labels: dict[str, str], job: str) -> None:
    words = [f"job:{job}", *(f'label.{name}="{value}"' for name, value in labels.items())]

    wanted = read(" ".join(words))

    assert wanted == Filter(job=job, labels=tuple(labels.items()))


@given(pattern=st.text("ab*", max_size=8), text=st.text("ab", max_size=8))
def test_a_star_matches_any_text(pattern: str, text: str) -> None:
    assert matches(pattern, text) == fnmatchcase(text, pattern)
