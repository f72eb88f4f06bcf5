"""The dashboard and the rules ask for numbers that there are, with labels that they have."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
_NUMBER = re.compile(r"(mainspring_[a-z_]+)(?:\{([^}]*)\})?")


def documented() -> dict[str, set[str]]:
    """Every number, with the labels that it has, as docs/reference/metrics.md says."""
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8").split("## OpenTelemetry")[0]
    found = {}
    for row in page.splitlines():
        if row.startswith("| `"):
            for name, labels in re.findall(r"`([a-z_]+)(?:\{([a-z,]+)\})?`", row.split("|")[1]):
                found[f"mainspring_{name}"] = set(filter(None, labels.split(",")))
    return found


def asked(expression: str) -> list[tuple[str, set[str]]]:
    """The numbers of an expression, with the labels that it selects by."""
    return [
        (re.sub("_(bucket|count|sum)$", "", name), set(re.findall(r"([a-z]+)\s*[=!]", labels)))
        for name, labels in _NUMBER.findall(expression)
    ]


def test_rules_ask_for_what_there_is() -> None:
    """Each rule has a number, a severity and a sentence."""
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text(encoding="utf-8"))
    known = documented()
    for rule in rules["groups"][0]["rules"]:
        numbers = asked(rule["expr"])
        assert numbers, rule
        assert all(labels <= known[name] for name, labels in numbers), rule
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"]["summary"]


def test_the_dashboard_asks_for_what_there_is() -> None:
    """Every panel shows something, and no two are at one place."""
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "mainspring.json").read_text(encoding="utf-8"))
    known = documented()
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            numbers = asked(target["expr"])
            assert numbers, panel["title"]
            assert all(labels <= known[name] for name, labels in numbers), panel["title"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)
    assert {one["name"] for one in dashboard["templating"]["list"]} == {"datasource", "tenant", "pipeline"}
