"""Golden files: all that users, workers, other servers and stores see of the program, as text that a person can read.

    python -m tests.golden            write them all anew (`make golden`)
    python -m tests.golden wire cli   write these

`tests/golden/test_golden.py` fails if a file in `expected/` is not what the code makes, and shows the difference. A
rename inside of the program changes none of them. Whoever changes one on purpose commits it with the code: the diff of
the golden file is what reviewers look at, and what the changelog tells.

Made pages of docs/reference pin other things already, and are compared by tests/docs/test_reference.py:

    settings.md    what each setting is for, in words (names, bounds and defaults are here too)
    pipeline.md    every field of a pipeline.yaml; tests/sdk compares the schema that editors use
    sdk.md         what the exports of `mainspring` and `mainspring.testing` say of themselves

tests/api/matrix.txt pins which role may call which route.
"""
