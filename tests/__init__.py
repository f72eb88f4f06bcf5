"""All tests, in the folders of the source; `sim` is the simulator, `e2e` has tests with real processes."""
