"""A directory as a source of pipelines: discover, watch, reconcile with a server, mirror the results (FLD-1 to 6)."""
