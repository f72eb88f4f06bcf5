"""Run the simulator: `python -m tests.sim --seeds 2000`, or one seed with its trace, or the mutations."""

from __future__ import annotations

import argparse
import os
import sys


def main() -> int:
    """Read the arguments, run, report. 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one seed, and tell all that happens in it")
    parser.add_argument("--processes", type=int, default=2, help="how many processes to spread them over")
    parser.add_argument("--virtual-seconds", type=float, default=900.0, help="the least length of a seed")
    parser.add_argument("--planted", action="store_true", help="switch off one guard at a time, and see it noticed")
    parser.add_argument("--plant", help="with --seed: switch off this guard")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets of texts depends on it.
        arguments = [sys.executable, "-m", "tests.sim", *sys.argv[1:]]
        os.execve(sys.executable, arguments, {**os.environ, "PYTHONHASHSEED": "0"})  # noqa: S606 - this program again
    from tests.sim import runs

    if options.seed is not None:
        return runs.tell_seed(options.seed, options.virtual_seconds, options.plant)
    if options.planted:
        return runs.run_planted(options.processes)
    seeds = range(options.first, options.first + options.seeds)
    return runs.run_seeds(seeds, options.processes, options.virtual_seconds)


if __name__ == "__main__":
    sys.exit(main())
