"""The graph of a run: edges, fan-out, expansion, references between tasks."""
