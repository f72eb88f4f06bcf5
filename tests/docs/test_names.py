"""Names on pages exist in the code: paths of ARCHITECTURE.md, messages of the worker protocol, alert rules."""

from __future__ import annotations

import re

from mainspring.protocol import wire
from tests.docs.test_links import PAGES, PROJECT

PACKAGE = PROJECT / "src" / "mainspring"
ARCHITECTURE = PROJECT / "ARCHITECTURE.md"
PROTOCOL = PROJECT / "docs" / "reference" / "worker-protocol.md"
RULES = PROJECT / "deploy" / "prometheus" / "alerts.yaml"

_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"(?:[\w.-]+/)+[\w.-]*|\w+\.(?:py|md|txt)")


def missing(line: str) -> list[str]:
    """The paths in a line that don't exist. A file name without a folder is beside the file before it."""
    folder, found = PACKAGE, []
    for path in (code for code in _CODE.findall(line) if _PATH.fullmatch(code)):
        target = next((root / path for root in (folder, PACKAGE, PROJECT) if (root / path).exists()), None)
        if target is None:
            found.append(path)
        else:
            folder = target if target.is_dir() else target.parent
    return found


def test_every_path_in_the_architecture_exists() -> None:
    lines = ARCHITECTURE.read_text(encoding="utf-8").splitlines()

    assert [path for line in lines for path in missing(line)] == []
    assert len(lines) <= 150


def test_a_missing_path_is_found() -> None:
    assert missing("| a state | `core/lifecycle/states.py`, `retry_policy.py` | `make client`, ADR 0017 |") == []
    assert missing("| a state | `core/lifecycle/gone.py` | `pipeline.yaml` |") == ["core/lifecycle/gone.py"]


def test_every_message_of_the_protocol_page_has_the_fields_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)\(([^)]*)\)` \|", PROTOCOL.read_text(encoding="utf-8"), re.MULTILINE)
    on_page = {name: tuple(field.strip() for field in fields.split(",") if field.strip()) for name, fields in rows}

    assert on_page == {name: getattr(wire, name).__struct_fields__ for name in on_page}
    assert len(on_page) > 20


def test_every_alert_rule_named_on_a_page_exists() -> None:
    rules = set(re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8")))
    named = {name for page in PAGES for name in re.findall(r"`(Mainspring[A-Z]\w+)`", page.read_text(encoding="utf-8"))}

    assert named - rules - {"MainspringError"} == set()
