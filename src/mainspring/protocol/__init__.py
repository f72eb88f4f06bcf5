"""What processes say to each other: the worker protocol, REST types, errors, ids, time, certificates."""
