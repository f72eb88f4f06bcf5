"""The audit log, tenants, settings and webhooks, typed as commands."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from mainspring.cli.commands.admin.audit_check import check_chains, read_heads
from mainspring.client.client import Client
from mainspring.core.model.audit_entry import AuditEntry, AuditRow, heads_of, seal
from mainspring.protocol.errors import InvalidFile
from mainspring.protocol.rest.admin import AuditView, HeadView
from mainspring.protocol.rest.runs import Page
from tests.cli.terminal import Terminal
from tests.e2e.town import Town, until
from tests.sdk.scripted import Answer, scripted

AT = datetime(2026, 11, 15, 12, tzinfo=UTC)


def chain(length: int) -> list[AuditRow]:
    """A chain of a tenant."""
    return seal(
        [
            AuditEntry(
                id=f"req_{number}", at=AT + timedelta(seconds=number), tenant="acme", actor="local", source="127.0.0.1",
                act="cancel_run", object=f"run_{number}", before=None, after='{"state":"CANCELLED"}',
            )
            for number in range(1, length + 1)
        ],
        {},
    )  # fmt: skip


def view(row: AuditRow) -> AuditView:
    """An entry as a server shows it."""
    fields = {name: getattr(row, name) for name in AuditView.__struct_fields__}
    before, after = (msgspec.Raw(side or b"null") for side in (row.before, row.after))
    return AuditView(**{**fields, "before": before, "after": after})


def faults(rows: list[AuditRow], *heads: HeadView) -> list[str]:
    """What is found wrong with a chain whose head a server tells, compared with heads that were kept."""
    told = [HeadView(tenant=one.tenant, seq=one.seq, hash=one.hash) for one in heads_of(rows)]
    pages: list[Page] = [Page(items=told), Page(items=list(map(view, rows))), Page(items=[])]
    answers = [Answer(200, msgspec.json.encode(page)) for page in pages]
    with scripted(*answers) as server, Client(server.url) as client:
        (checked,) = check_chains(client, heads)
    assert checked.entries == len(rows)
    return [f"{fault.seq} {fault.id}: {fault.why}" for fault in checked.faults]


def test_each_broken_place_of_a_chain_is_named() -> None:
    whole = chain(5)
    changed = [msgspec.structs.replace(row, actor="nobody") if row.seq == 3 else row for row in whole]

    assert faults(whole) == []
    assert faults(changed) == ["3 req_3: differs from what was sealed"]
    assert faults([row for row in whole if row.seq != 3]) == ["4 req_4: entries missing before it: 1"]
    assert faults(whole[2:]) == []


def test_heads_that_were_kept_show_a_chain_that_was_cut_or_written_anew() -> None:
    whole = chain(5)
    kept = HeadView(tenant="acme", seq=4, hash=whole[3].hash)
    anew = seal([msgspec.structs.replace(row, why="other") for row in whole], {})

    assert faults(whole, kept) == []
    assert faults(anew) == []
    assert faults(anew, kept) == ["4 : the chain was rewritten"]
    assert faults(whole[:3], kept) == ["4 : the end of the chain is missing"]
    assert faults(whole[4:], kept) == []


def test_heads_are_read_as_they_were_printed(tmp_path: Path) -> None:
    file = tmp_path / "heads"
    for text in ('[{"tenant": "acme", "seq": 1, "hash": "a"}]', '{"tenant": "acme", "seq": 1, "hash": "a"}\n'):
        file.write_text(text)
        assert read_heads(file) == [HeadView(tenant="acme", seq=1, hash="a")]
    file.write_text("heads")
    with pytest.raises(InvalidFile):
        read_heads(file)


def test_who_did_what_is_listed_and_checked(terminal: Terminal, tmp_path: Path) -> None:
    terminal.out("tenants", "describe", "watched", "--title", "Watched")

    (entry,) = terminal.json("audit", "--act", "put_tenant", "--object", "watched")
    assert msgspec.json.decode(msgspec.json.encode(entry), type=AuditView).actor == "local"
    assert terminal.out("audit", "--to", "2000-01-01", "-q") == ""
    head = until(
        lambda: [head for head in terminal.json("audit", "heads") if head["tenant"] == "watched"], "it is sealed"
    )
    kept = tmp_path / "heads.json"
    kept.write_text(msgspec.json.encode(head).decode())
    assert terminal.out("audit", "verify", "--tenant", "watched", "--against", kept).split()[5:] == [
        "watched",
        "1",
        "1",
        "1",
        "0",
    ]
    kept.write_text(msgspec.json.encode([{**head[0], "hash": "0" * 64}]).decode())
    result = terminal.call("audit", "verify", "--tenant", "watched", "--against", kept)
    assert result.exit_code == 1
    assert "the chain was rewritten" in result.stdout
    assert terminal.json("audit", "verify")[0]["faults"] == []


def test_an_entry_that_somebody_changed_in_the_store_is_named(terminal: Terminal, tmp_path: Path) -> None:
    with Town(tmp_path) as town:
        reach = ("--server", town.server().address)
        for title in ("One", "Two", "Three"):
            terminal.out("tenants", "describe", "acme", "--title", title, *reach)
        until(lambda: [head["seq"] for head in terminal.json("audit", "heads", *reach)] == [3], "all is sealed")
        assert terminal.call("audit", "verify", *reach).exit_code == 0

        with closing(sqlite3.connect(tmp_path / "store" / "mainspring.db")) as store, store:
            store.execute("UPDATE audit SET actor = 'nobody' WHERE tenant = 'acme' AND seq = 2")
        result = terminal.call("audit", "verify", *reach)

    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].split()[:2] == ["acme", "2"]
    assert "differs from what was sealed" in result.stdout


def test_a_tenant_is_described_piece_by_piece(terminal: Terminal) -> None:
    terminal.out("tenants", "describe", "pieces", "--title", "Pieces")
    terminal.out("tenants", "describe", "pieces", "--contact", "ops@pieces.example")

    shown = terminal.json("tenants", "show", "pieces")
    assert (shown["title"], shown["contact"]) == ("Pieces", "ops@pieces.example")
    assert "pieces" in terminal.out("tenants", "-q").split()
    assert "ops@pieces.example" in terminal.out("tenants", "show", "pieces")
    assert terminal.call("tenants", "describe", "pieces").exit_code == 2
    assert terminal.call("tenants", "show", "nobody").exit_code == 5


def test_a_setting_is_changed_and_reset(terminal: Terminal) -> None:
    setting = next(one for one in terminal.json("settings") if isinstance(one["value"], int))
    name, other = setting["name"], setting["value"] + 1

    assert terminal.out("settings", "set", name, str(other), "--why", "to see") == f"{name} is {other} now\n"
    assert terminal.json("settings", "reset", name)[0]["changed"]
    assert terminal.call("settings", "set", name, "much").exit_code == 4
    assert terminal.call("settings", "set", "nothing", "1").exit_code == 5


def test_a_webhook_is_added_changed_tried_and_removed(terminal: Terminal) -> None:
    hook, secret = terminal.out("webhooks", "add", "http://127.0.0.1:9/hook", "--event", "run.failed").split()

    assert secret.startswith("whsec_")
    changed = terminal.json("webhooks", "change", hook, "--disable", "--note", "moving")
    assert (changed["enabled"], changed["events"], changed["note"]) == (False, ["run.failed"], "moving")
    assert "moving" in terminal.out("webhooks", "show", hook)
    (message,) = terminal.json("webhooks", "test", hook)
    assert terminal.out("webhooks", "deliveries", hook, "-q").split() == [message["id"]]
    assert terminal.json("webhooks", "resend", hook, message["id"])[0]["id"] == message["id"]
    assert hook in terminal.out("webhooks", "-q").split()
    assert terminal.json("webhooks", "remove", hook)[0]["changed"]
    assert terminal.call("webhooks", "show", hook).exit_code == 5
