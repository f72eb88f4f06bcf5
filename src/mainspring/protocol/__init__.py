"""Protocols between processes: the worker protocol, REST types, errors, ids, time, certificates."""
