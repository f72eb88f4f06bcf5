"""Golden files: everything that users, workers, other servers and stores see of the program, as readable text.

    python -m tests.golden            rewrite them all (`make golden`)
    python -m tests.golden wire cli   rewrite these

`tests/golden/test_golden.py` fails if a file in `expected/` differs from the code, and shows the difference. Internal
renames change none of them. Commit an intended change together with the code: reviewers read the
diff of the golden file, and the changelog mentions it.

Generated pages of docs/reference are compared by tests/docs/test_reference.py:

    settings.md    the purpose of each setting (names, bounds and defaults are in the golden files too)
    pipeline.md    every field of a pipeline.yaml; tests/definitions compares the schema that editors use
    sdk.md         the docstrings of what `mainspring` and `mainspring.testing` export

tests/api/matrix.txt pins which role may call which route.
"""
