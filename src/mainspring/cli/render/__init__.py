"""How results are printed: tables, details, logs, and runs that are being watched."""
