"""The dashboard and the alert rules use existing metrics with existing labels."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
_NUMBER = re.compile(r"(mainspring_[a-z_]+)(?:\{([^}]*)\})?")


def documented() -> dict[str, set[str]]:
    """Return all metrics with their labels, from docs/reference/metrics.md."""
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8").split("## OpenTelemetry")[0]
    found = {}
    for row in page.splitlines():
        if row.startswith("| `"):
            for name, labels in re.findall(r"`([a-z_]+)(?:\{([a-z,]+)\})?`", row.split("|")[1]):
                found[f"mainspring_{name}"] = set(filter(None, labels.split(",")))
    return found


def asked(expression: str) -> list[tuple[str, set[str]]]:
    """Return the metrics of an expression, with the labels that it selects by."""
    return [
        (re.sub("_(bucket|count|sum)$", "", name), set(re.findall(r"([a-z]+)\s*[=!]", labels)))
        for name, labels in _NUMBER.findall(expression)
    ]


def test_rules_use_existing_metrics() -> None:
    """Each rule has a metric, a severity and a summary."""
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text(encoding="utf-8"))
    known = documented()
    for rule in rules["groups"][0]["rules"]:
        numbers = asked(rule["expr"])
        assert numbers, rule
        assert all(labels <= known[name] for name, labels in numbers), rule
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"]["summary"]


def test_the_dashboard_uses_existing_metrics() -> None:
    """Every panel has a query, and no two have the same position."""
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
