"""What a driver does: it reads what is asked of it, line by line, does it, and answers with one line.

    {"do": "enqueue", "first": 0, "count": 100}    ->    {"began_at": 12.5, "ended_at": 12.9, "answer": null}

What can be asked of it, it says in its first line. The answers go where stdout was; what the system prints goes to
stderr instead, so that nobody mistakes it for an answer.

    enqueue        so many tasks, one request after another; each is accepted before the next is asked for
    enqueue_many   the same tasks with whatever the system has for many at once
    left           how many tasks are not yet recorded as done
    chain          steps that follow each other, as one piece of work
    fan_out        so many tasks side by side, and one after all of them, which has the number after theirs
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
    """Answer until nobody asks any more."""
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
