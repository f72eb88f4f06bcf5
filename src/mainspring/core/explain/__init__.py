"""Explain why work waits: diagnoses and their messages.

Structure: `diagnosis`, `what_if`. Messages: `messages`, `advice_messages`, `unplaced`. Rendering:
`diagnosis_report`. Diagnoses made of rows alone: `from_rows`, `schedule_diagnosis`. Those of a leader: `shard/explain`.
"""
