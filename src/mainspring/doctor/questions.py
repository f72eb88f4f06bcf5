"""Run all checks in the order of the runbook."""

from __future__ import annotations

from mainspring.doctor.check_lateness import ask_lateness
from mainspring.doctor.check_local_machine import ask_nearby
from mainspring.doctor.check_pools import ask_pools
from mainspring.doctor.check_queue import ask_queue
from mainspring.doctor.check_schedules import ask_schedules
from mainspring.doctor.check_servers import ask_servers
from mainspring.doctor.check_tenant import ask_tenant
from mainspring.doctor.facts import Facts, NearbyFacts
from mainspring.doctor.findings import Answer, Check, Report

_ALL = (ask_servers, ask_pools, ask_queue, ask_schedules, ask_lateness, ask_tenant)


def judge(facts: Facts) -> Report:
    """Run all checks on the facts of a server."""
    checks = [check for ask in _ALL for check in ask(facts)]
    version = None if facts.checkup is None else facts.checkup.version
    return Report(server=facts.url, version=version, at=facts.at, problems=_problems(checks), checks=checks)


def judge_nearby(facts: NearbyFacts) -> Report:
    """Run the checks of a machine whose server does not answer."""
    checks = list(ask_nearby(facts))
    return Report(
        server=facts.url, version=None, at=facts.at, problems=_problems(checks), checks=checks, is_reached=False
    )


def _problems(checks: list[Check]) -> int:
    return sum(check.answer is Answer.NO for check in checks)
