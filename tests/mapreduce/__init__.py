"""Map-reduce over items: each part by itself, with real files, programs and servers."""
