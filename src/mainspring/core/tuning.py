"""What an operator may set of a shard's measures: how fast one run may make work, and how often failures are retried.

A value is given to `mainspring server` as `--set NAME=VALUE`, with the names of the fields here. Servers that share a
store should have the same. What belongs to a job (its limits, tries and delays) is set there.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainspring.core.hints import did_you_mean
from mainspring.core.pacing import Pace, Paced
from mainspring.errors import Fault, Refused

MOST = 1_000_000


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """The measures, as they are unless somebody says otherwise."""

    growth_burst: int = 2_000
    """Tasks that a run may add at once while others wait (DAG-2)."""
    growth_per_second: int = 1_000
    """And then in each second."""
    ready_burst: int = 5_000
    """Tasks of a run that may become ready at once while others wait (DAG-9)."""
    ready_per_second: int = 5_000
    """And then in each second."""
    retries_per_second: int = 5_000
    """Retries in the pool (RTY-3)."""
    alike_retries_per_second: int = 500
    """And of failures that are alike."""

    def pace(self, work: Paced) -> Pace:
        """How fast a run may do this while others wait."""
        if work is Paced.GROWTH:
            return Pace(per_second=self.growth_per_second, burst=self.growth_burst)
        return Pace(per_second=self.ready_per_second, burst=self.ready_burst)


USUAL = Tuning()


def read_tuning(settings: Sequence[str]) -> Tuning:
    """The measures with these settings, each `name=value`. Raises Refused, with every fault."""
    faults, values = [], {}
    for setting in settings:
        name, _, value = setting.partition("=")
        name = name.strip()
        if name not in Tuning.__struct_fields__:
            why = f"there is no such setting{did_you_mean(name, set(Tuning.__struct_fields__))}"
            faults.append(Fault(where=name or setting, why=why))
        elif not value.strip().isdecimal() or not 1 <= int(value) <= MOST:
            faults.append(Fault(where=name, why=f"must be a whole number from 1 to {MOST}"))
        else:
            values[name] = int(value)
    if faults:
        raise Refused("the settings can't be used", faults)
    return Tuning(**values)
