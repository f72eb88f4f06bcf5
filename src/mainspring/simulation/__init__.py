"""Virtual time: virtual workers, the capacity simulator, and the in-process engine for tests."""
