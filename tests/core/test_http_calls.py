"""HTTP and container tasks: validation, and the request that is sent."""

from __future__ import annotations

import json

import msgspec
import pytest

from mainspring.core.work.http_calls import METHODS, HttpRequest, prepare
from mainspring.core.work.work import faults_in
from mainspring.protocol.errors import Refused

NAMES = "available: item and outputs and params and partition and run and task and total and window"


def faults_of(work: object) -> list[str]:
    """Return the faults of a work, in short."""
    return [f"{fault.where}: {fault.why}" for fault in faults_in(json.dumps(work), "work")]


def request(**fields: object) -> HttpRequest:
    """A request, as a job has it."""
    return msgspec.json.decode(json.dumps({"url": "https://h.test/", **fields}), type=HttpRequest)


@pytest.mark.parametrize(
    "work",
    [
        {"http": {"url": "https://h.test"}},
        {"http": {"url": "HTTPS://h.test:8443/a?b=c#d", "method": "DELETE", "expect": [404], "timeout_seconds": 0.5}},
        {"http": {"url": "{{ params.url }}", "body": "{{ params.a }}"}},
        {"http": {"url": "https://{{ params.host }}/x", "json": [{"a": "{{ params.a }}"}, 1, None]}},
        {"http": {"url": "https://h.test/", "headers": {"X-Key": "${KEY}"}}, "secrets": {"KEY": "env:KEY"}},
        {"container": {"image": "python:3.13-slim"}},
        {"container": {"image": "ghcr.io/a/b-c_d/e", "run": ["python", "{{ params.day }}"], "pull": "always"}},
        {"container": {"image": "localhost:5000/a@sha256:" + "0" * 64}, "network": True},
    ],
)
def test_valid_definitions_have_no_faults(work: object) -> None:
    assert faults_of(work) == []


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"url": ""}, "url: is empty"),
        ({"url": "ftp://h.test/"}, "url: must begin with https:// or http:// and a host"),
        ({"url": "file:///etc/passwd"}, "url: must begin with https:// or http:// and a host"),
        ({"url": "x{{ params.a }}"}, "url: must begin with https:// or http://"),
        ({"url": "https://u:p@h.test/"}, "url: must not contain a user or password"),
        ({"url": "https://h.test:99999/"}, "url: must begin with https:// or http:// and a host"),
        ({"url": "https://h.test/a b"}, "url: must be at most 2000 printable ASCII characters"),
        ({"url": "https://h.test\\@i.test/"}, "url: must not contain a user or password"),
        ({"url": "https://h.test/" + "a" * 2_000}, "url: must be at most 2000 printable ASCII characters"),
        ({"url": "https://h.test/${KEY}"}, "url: must not contain a secret: use a header or the body"),
        ({"url": "https://h.test/{{ parms.a }}"}, f"url: in {{{{ parms.a }}}}: uses undefined parms; {NAMES}"),
        ({"method": "POSTS"}, f"method: must be one of {', '.join(METHODS)}, did you mean POST?"),
        ({"headers": {"X A": "b"}}, "headers.X A: is not a header name"),
        ({"headers": {"X-A": "b\r\nX-B: c"}}, "headers.X-A: must be one line of printable characters"),
        ({"headers": {"Host": "b"}}, "headers.Host: must be omitted: it is set by the HTTP client"),
        ({"headers": {"Proxy-Authorization": "b"}},
         "headers.Proxy-Authorization: must be omitted: it is set by the HTTP client"),
        ({"headers": {"a": "1", "A": "2"}}, "headers: has a name twice, in different case"),
        ({"headers": {f"x-{n}": "1" for n in range(65)}}, "headers: has more than 64 headers"),
        ({"headers": {"X-A": "${TOKEM}"}},
         "headers.X-A: has ${TOKEM}, which is not a secret of the task, did you mean TOKEN?"),
        ({"body": "${B}"}, "body: has ${B}, which is not a secret of the task: declare it in secrets"),
        ({"json": {"a": ["{{ x }"]}}, "json: a {{ is not closed: '{{ x }'"),
        ({"json": "a" * 70_000}, "json: has more than 65536 bytes"),
        ({"json": 1, "body": "x"}, "json: can't be combined with body"),
        ({"expect": [20]}, "expect: must be HTTP statuses from 100 to 599"),
        ({"timeout_seconds": 0}, "timeout_seconds: must be more than 0 and at most 3600"),
        ({"timeout_seconds": 3_601}, "timeout_seconds: must be more than 0 and at most 3600"),
        ({"timeout": 3}, " Object contains unknown field `timeout`"),
    ],
)  # fmt: skip
def test_faults_of_a_request_are_reported_with_their_path(fields: dict[str, object], fault: str) -> None:
    work = {"http": {"url": "https://h.test/", **fields}, "secrets": {"TOKEN": "env:T"}}
    assert f"work.http{'' if fault.startswith(' ') else '.'}{fault}".replace("http O", "http: O") in faults_of(work)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"image": ""}, "image: is empty"),
        *(
            ({"image": image}, "image: is not an image name such as python:3.13-slim")
            for image in (
                "--privileged", "dir:/etc", "docker-archive:/x.tar", "docker://a", "a b", "a\nb", "../a", "/a",
                "a" * 501, "oci:/x:y", "A", "a:-x", "oci-archive:x.tar",
            )
        ),
        ({"image": "a", "run": ["", "x"]}, "run: must begin with a program, or be left out"),
        ({"image": "a", "run": ["x"] * 1_001}, "run: has more than 1000 arguments"),
        ({"image": "a", "run": ["x", "{{ y }}"]}, f"run[1]: in {{{{ y }}}}: uses undefined y; {NAMES}"),
        ({"image": "a", "pull": "allways"}, "pull: must be one of missing, always, never, did you mean always?"),
    ],
)  # fmt: skip
def test_faults_of_a_container_are_reported_with_their_path(fields: dict[str, object], fault: str) -> None:
    assert faults_of({"container": fields}) == [f"work.container.{fault}"]


def test_templates_and_secrets_are_inserted() -> None:
    """One expression alone keeps its type; a secret is put in where the job has it, and not where a value says so."""
    values = {"params": msgspec.Raw(b'{"n": 3, "rows": [1, {"a": null}], "evil": "${KEY} {{ params.n }}"}')}
    asked = request(
        url="https://h.test/{{ params.n }}",
        method="POST",
        headers={"X-Both": "${KEY}${KEY} {{ params.evil }}", "Content-Type": "application/x"},
        json={"n": "{{ params.n }}", "rows": ["{{params.rows}}"], "text": "n={{ params.n }}", "key": "${KEY}", "no": 1},
    )
    sent = prepare(asked, values, {"KEY": 's"3'}, "nonce")
    assert (sent.method, sent.url) == ("POST", "https://h.test/3")
    assert sent.headers == {"x-both": 's"3s"3 ${KEY} {{ params.n }}', "content-type": "application/x"}
    assert json.loads(sent.body) == {"n": 3, "rows": [[1, {"a": None}]], "text": "n=3", "key": 's"3', "no": 1}


def test_a_multiline_secret_is_not_allowed_in_a_header() -> None:
    """It would be another header."""
    with pytest.raises(Refused, match=r"http\.headers\.x-a must be one line"):
        prepare(request(headers={"X-A": "${KEY}"}), {}, {"KEY": "a\r\nX-B: c"}, "nonce")
