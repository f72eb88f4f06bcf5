"""The demo: a server and six workers on this machine, to which things happen that are worth seeing.

    stage.py      the server and the workers
    scenario.py   what there is to do: jobs and schedules
    scenes.py     what is done, when, and what became of it
    measures.py   that in numbers, purely
    story.py      from what happened to lines for people, purely
    telling.py    the live stream, as a story
    checks.py     whether everything was as it should be
    play.py       all of it together, until somebody has seen enough

Nothing here is pretended: what is told is what the server says. A new scene is a function in `scenes.py` with a line in
`SCENES`, a measure, and a case in `story.sum_up` and `checks.judge`; docs/guides/demo.md lists it.
"""
