"""The driver loop: read commands, one per line, execute them, and write one line per response.

    {"do": "enqueue", "first": 0, "count": 100}    ->    {"began_at": 12.5, "ended_at": 12.9, "answer": null}

Its first line lists the supported commands. Responses go to the original stdout; output of the system is redirected to
stderr.

    enqueue        tasks, one per request, sequentially
    enqueue_many   the same tasks with the system's bulk request
    left           number of tasks that are not recorded as done
    chain          sequential steps in one workflow
    fan_out        parallel tasks, and a join with the next number
    clear          forget everything that was enqueued
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping

Action = Callable[..., object]


def answer_questions(actions: Mapping[str, Action]) -> None:
    """Execute commands until the end of input."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        _say(answers.write, answers.flush, {"actions": sorted(actions)})
        for line in sys.stdin:
            question = json.loads(line)
            action = actions[question.pop("do")]
            began_at = time.monotonic()
            answer = action(**question)
            ended_at = time.monotonic()
            answered = answer if isinstance(answer, int | float) else None
            _say(answers.write, answers.flush, {"began_at": began_at, "ended_at": ended_at, "answer": answered})


def _say(write: Callable[[str], int], flush: Callable[[], None], what: Mapping[str, object]) -> None:
    write(json.dumps(what) + "\n")
    flush()
