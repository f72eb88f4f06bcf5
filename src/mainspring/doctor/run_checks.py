"""Run all checks in the order of the runbook."""

from __future__ import annotations

from mainspring.doctor.check_lateness import check_lateness
from mainspring.doctor.check_local_machine import check_local_machine
from mainspring.doctor.check_pools import check_pools
from mainspring.doctor.check_queue import check_queue
from mainspring.doctor.check_schedules import check_schedules
from mainspring.doctor.check_servers import check_servers
from mainspring.doctor.check_tenant import check_tenant
from mainspring.doctor.facts import Facts, LocalFacts
from mainspring.doctor.health_check import Answer, Check, Report

_ALL = (check_servers, check_pools, check_queue, check_schedules, check_lateness, check_tenant)


def run_checks(facts: Facts) -> Report:
    """Run all checks on the facts of a server."""
    checks = [check for ask in _ALL for check in ask(facts)]
    version = None if facts.server_health is None else facts.server_health.version
    return Report(server=facts.url, version=version, at=facts.at, problems=_problems(checks), checks=checks)


def run_local_checks(facts: LocalFacts) -> Report:
    """Run the checks of a machine whose server does not answer."""
    checks = list(check_local_machine(facts))
    return Report(
        server=facts.url, version=None, at=facts.at, problems=_problems(checks), checks=checks, is_reached=False
    )


def _problems(checks: list[Check]) -> int:
    return sum(check.answer is Answer.NO for check in checks)
