"""Settings that can be changed at runtime, on all servers (OPS-5). For callers with access to all tenants."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.principal import Role
from mainspring.api.http import etags
from mainspring.api.http.etags import IfMatch, IfNoneMatch
from mainspring.api.http.problems import renamed_faults
from mainspring.api.http.routing import Router
from mainspring.api.submission.actions import reason
from mainspring.api.views.view_of import view_of
from mainspring.core.model.audit_entry import INSTALLATION
from mainspring.core.model.settings import SETTINGS, Setting
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.core.text.suggestions import did_you_mean
from mainspring.host.config.settings import Settings
from mainspring.protocol.errors import Fault, NotFound
from mainspring.protocol.rest.admin import SettingRequest, SettingView
from mainspring.protocol.rest.runs import ActionResult, Page
from mainspring.store.ports.admin import SettingOverride
from mainspring.store.ports.store import Store

router = Router()


@router.get("/settings", operation="list_settings", role=Role.VIEWER, all_tenants=True)
async def list_settings(settings: Settings) -> Page[SettingView]:
    """List all settings, with their limits and the origin of their values."""
    rows = await settings.refresh()
    return Page(items=[_view(settings, setting, rows) for setting in SETTINGS.values()])


@router.get("/settings/{name}", operation="get_setting", role=Role.VIEWER, returns=SettingView, all_tenants=True)
async def get_setting(name: str, settings: Settings, known: IfNoneMatch = None) -> Response:
    """Get a setting."""
    view = _view(settings, _find(name), await settings.refresh())
    return etags.answer(view, view.version, known)


@router.put("/settings/{name}", operation="put_setting", role=Role.ADMIN, returns=SettingView, all_tenants=True)
async def put_setting(
    name: str, body: SettingRequest, store: Store, settings: Settings, audit: Auditor, match: IfMatch = None
) -> Response:
    """Change a setting, on this server at once and on all others within 5 s."""
    setting = _find(name)
    before = _view(settings, setting, await settings.refresh())
    expected = etags.expected(match, before.version, f"setting {name}")
    text = _text(body.value)
    _check(settings, name, text)
    row = SettingOverride(
        name=name, value=text, version=0, updated_at=EPOCH, updated_by=audit.actor, why=reason(body.why)
    )
    entry = audit.entry(name, tenant=INSTALLATION, why=row.why, before=before.value, after=setting.read(text))
    kept = await store.put_setting_override(row, expected, entry)
    return etags.answer(_view(settings, setting, await settings.refresh()), kept.version)


@router.delete("/settings/{name}", operation="reset_setting", role=Role.ADMIN, all_tenants=True)
async def reset_setting(
    name: str, store: Store, settings: Settings, audit: Auditor, why: str = "", match: IfMatch = None
) -> ActionResult:
    """Reset a setting to each server's default."""
    setting = _find(name)
    before = _view(settings, setting, await settings.refresh())
    etags.expected(match, before.version, f"setting {name}")
    _check(settings, name, None)
    entry = audit.entry(name, tenant=INSTALLATION, why=reason(why), before=before.value, after=before.default)
    changed = await store.drop_setting_override(name, entry)
    if not changed:
        await store.record([entry])
    await settings.refresh()
    return ActionResult(changed=changed)


def _find(name: str) -> Setting:
    setting = SETTINGS.get(name)
    if setting is None:
        raise NotFound(f"there is no setting {name[:200]}{did_you_mean(name, SETTINGS)}")
    return setting


def _text(value: float | str) -> str:
    """Return the stored form of a value. JSON does not distinguish 10 from 10.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _check(settings: Settings, name: str, text: str | None) -> None:
    """Raise Refused for the field `value` if it is invalid."""

    def rename(fault: Fault) -> Fault:
        return Fault(where="value", why=fault.why if fault.where == name else f"{fault.where} {fault.why}")

    with renamed_faults(rename):
        settings.check(name, text)


def _view(settings: Settings, setting: Setting, rows: Mapping[str, SettingOverride]) -> SettingView:
    row = rows.get(setting.name)
    return view_of(
        SettingView,
        setting,
        value=settings.value(setting),
        default=settings.default(setting),
        origin="changed" if row is not None else "flag" if settings.is_given(setting) else "default",
        version=0 if row is None else row.version,
        updated_at=None if row is None else row.updated_at,
        updated_by="" if row is None else row.updated_by,
    )
