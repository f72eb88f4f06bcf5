"""A directory as a source of pipelines: found, watched, given to a server, and told what came of them (FLD-1 to 6)."""
