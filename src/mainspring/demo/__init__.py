"""The demo: a server and six workers on this machine, with failures and other events worth seeing.

    demo_cluster.py  the server and the workers
    demo_jobs.py     jobs and schedules
    scenes.py        the scenes: what happens when
    measures.py      results of the scenes as numbers; pure
    console_lines.py console lines for events and results; pure
    checks.py        expected results
    runner.py        the whole demo, from start to shutdown

Nothing is simulated: everything shown comes from the server. To add a scene: write a function in `scenes.py`, add it
to `SCENES`, add a measure, its cases in `console_lines.line_for_measure` and `checks.judge`, and list it in
docs/guides/demo.md.
"""
