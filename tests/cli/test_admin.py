"""Commands on the audit log, tenants, settings and webhooks."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from mainspring.cli.commands.admin.audit import check_chains, read_heads
from mainspring.client.client import Client
from mainspring.core.model.audit_entry import AuditEntry, AuditRow, heads_of, seal
from mainspring.protocol.errors import InvalidFile
from mainspring.protocol.rest.admin import AuditFaultView, AuditView, HeadView
from mainspring.protocol.rest.runs import Page
from tests.cli.terminal import Terminal
from tests.client.scripted_server import Answer, scripted
from tests.e2e.cluster import ServerCluster, until

AT = datetime(2026, 11, 15, 12, tzinfo=UTC)


def chain(length: int) -> list[AuditRow]:
    """Return a chain of a tenant."""
    return seal(
        [
            AuditEntry(
                id=f"req_{number}", at=AT + timedelta(seconds=number), tenant="acme", actor="local", source="127.0.0.1",
                action="cancel_run", object=f"run_{number}", before=None, after='{"state":"CANCELLED"}',
            )
            for number in range(1, length + 1)
        ],
        {},
    )  # fmt: skip


def view(row: AuditRow) -> AuditView:
    """Return the view of an entry."""
    fields = {name: getattr(row, name) for name in AuditView.__struct_fields__}
    before, after = (msgspec.Raw(side or b"null") for side in (row.before, row.after))
    return AuditView(**{**fields, "before": before, "after": after})


def faults(rows: list[AuditRow], *heads: HeadView) -> list[AuditFaultView]:
    """Return the faults of a chain, compared with the server's head and with stored heads."""
    told = [HeadView(tenant=one.tenant, seq=one.seq, hash=one.hash) for one in heads_of(rows)]
    pages: list[Page] = [Page(items=told), Page(items=list(map(view, rows))), Page(items=[])]
    answers = [Answer(200, msgspec.json.encode(page)) for page in pages]
    with scripted(*answers) as server, Client(server.url) as client:
        (checked,) = check_chains(client, heads)
    assert checked.entries == len(rows)
    return checked.faults


def places(found: list[AuditFaultView]) -> list[tuple[int, str]]:
    """Return the sequence numbers and entries of faults."""
    return [(fault.seq, fault.id) for fault in found]


def test_each_fault_of_a_chain_is_located() -> None:
    whole = chain(5)
    changed = [msgspec.structs.replace(row, actor="nobody") if row.seq == 3 else row for row in whole]

    assert faults(whole) == []
    assert places(faults(changed)) == [(3, "req_3")]
    assert places(faults([row for row in whole if row.seq != 3])) == [(4, "req_4")]
    assert faults(whole[2:]) == []


def test_stored_heads_reveal_a_truncated_or_rewritten_chain() -> None:
    whole = chain(5)
    kept = HeadView(tenant="acme", seq=4, hash=whole[3].hash)
    anew = seal([msgspec.structs.replace(row, why="other") for row in whole], {})

    assert faults(whole, kept) == []
    assert faults(anew) == []
    rewritten, truncated = faults(anew, kept), faults(whole[:3], kept)
    assert places(rewritten) == places(truncated) == [(4, "")]
    assert rewritten[0].why != truncated[0].why
    assert faults(whole[4:], kept) == []


def test_heads_are_read_in_every_printed_format(tmp_path: Path) -> None:
    file = tmp_path / "heads"
    for text in ('[{"tenant": "acme", "seq": 1, "hash": "a"}]', '{"tenant": "acme", "seq": 1, "hash": "a"}\n'):
        file.write_text(text)
        assert read_heads(file) == [HeadView(tenant="acme", seq=1, hash="a")]
    file.write_text("heads")
    with pytest.raises(InvalidFile):
        read_heads(file)


def test_the_audit_log_is_listed_and_verified(terminal: Terminal, tmp_path: Path) -> None:
    terminal.out("tenants", "describe", "watched", "--title", "Watched")

    (entry,) = terminal.json("audit", "--action", "put_tenant", "--object", "watched")
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
    assert result.stdout.splitlines()[-1].split()[:2] == ["watched", "1"]
    assert terminal.json("audit", "verify")[0]["faults"] == []


def test_an_entry_changed_in_the_store_is_found(terminal: Terminal, tmp_path: Path) -> None:
    with ServerCluster(tmp_path) as cluster:
        server_option = ("--server", cluster.server().address)
        for title in ("One", "Two", "Three"):
            terminal.out("tenants", "describe", "acme", "--title", title, *server_option)
        until(lambda: [head["seq"] for head in terminal.json("audit", "heads", *server_option)] == [3], "all is sealed")
        assert terminal.call("audit", "verify", *server_option).exit_code == 0

        with closing(sqlite3.connect(tmp_path / "store" / "mainspring.db")) as store, store:
            store.execute("UPDATE audit SET actor = 'nobody' WHERE tenant = 'acme' AND seq = 2")
        result = terminal.call("audit", "verify", *server_option)

    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].split()[:2] == ["acme", "2"]


def test_a_tenant_is_described_incrementally(terminal: Terminal) -> None:
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

    assert terminal.out("settings", "set", name, str(other), "--why", "to see") == f"{name} = {other}\n"
    assert terminal.json("settings", "reset", name)[0]["changed"]
    assert terminal.call("settings", "set", name, "much").exit_code == 4
    assert terminal.call("settings", "set", "nothing", "1").exit_code == 5


def test_a_webhook_is_added_changed_tested_and_removed(terminal: Terminal) -> None:
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
