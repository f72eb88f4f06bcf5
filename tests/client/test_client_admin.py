"""Administration with the client, on a real server."""

from __future__ import annotations

import pytest

from mainspring.client.client import Client
from mainspring.protocol import errors
from mainspring.protocol.rest.admin import TenantRequest, WebhookRequest
from tests.e2e.cluster import until


def test_concurrent_changes_of_a_tenant_are_refused(client: Client) -> None:
    made = client.put_tenant("acme", TenantRequest(title="Acme"))

    assert client.tenant_named("acme") == made
    assert client.put_tenant("acme", TenantRequest(title="Acme Inc."), if_match=made.version).version > made.version
    with pytest.raises(errors.VersionMismatch):
        client.put_tenant("acme", TenantRequest(title="Nobody"), if_match=made.version)
    assert "Acme Inc." in {tenant.title for tenant in client.tenants()}


def test_a_setting_is_changed_and_reset(client: Client) -> None:
    setting = next(one for one in client.settings() if isinstance(one.value, int) and one.value < one.maximum)

    other = int(setting.value) + 1
    changed = client.change_setting(setting.name, other, "to see", if_match=setting.version)
    assert (changed.value, changed.origin) == (other, "changed")
    with pytest.raises(errors.VersionMismatch):
        client.change_setting(setting.name, setting.value, if_match=setting.version)
    assert client.reset_setting(setting.name, "seen", if_match=changed.version).changed
    assert client.setting(setting.name).value == setting.value


def test_actions_are_in_the_audit_log_and_its_chain_verifies(client: Client) -> None:
    client.put_tenant("audited", TenantRequest(title="Audited"))

    (entry,) = client.audit(action="put_tenant", object="audited")
    assert (entry.tenant, entry.actor) == ("audited", "local")
    head = until(
        lambda: next((head for head in client.audit_heads() if head.tenant == "audited"), None), "the chain is sealed"
    )
    (sealed,) = [entry for part in client.audit_chain("audited") for entry in part]
    assert (sealed.id, sealed.seq, sealed.hash) == (entry.id, head.seq, head.hash)
    checked = client.verify_audit("audited")
    assert (checked.entries, checked.head, checked.faults) == (1, head, [])


def test_a_webhook_is_created_changed_tested_and_deleted(client: Client) -> None:
    made = client.create_webhook(WebhookRequest(url="http://127.0.0.1:9/hook", events=("run.failed",), tenant="acme"))

    assert made.secret is not None
    assert client.webhook(made.id).secret is None
    assert made.id in {webhook.id for webhook in client.webhooks()}
    message = client.send_test(made.id)
    assert [one.id for one in client.deliveries(made.id)] == [message.id]
    client.resend(made.id, message.id)
    request = WebhookRequest(url=made.url, enabled=False)
    assert not client.change_webhook(made.id, request, if_match=made.version).enabled
    with pytest.raises(errors.VersionMismatch):
        client.change_webhook(made.id, request, if_match=made.version)
    assert client.delete_webhook(made.id).changed
    with pytest.raises(errors.NotFound):
        client.webhook(made.id)
