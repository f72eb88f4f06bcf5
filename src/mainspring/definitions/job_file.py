"""Job files: the user-facing form, converted to the strict form of the API (`job.py`).

    name: etl
    timeout: 2h
    defaults: {retries: 2, timeout: 10m}
    tasks:
      - id: extract
        run: python extract.py --day {{ params.day }}
      - id: load
        needs: [extract, {task: check, when: "output.rows > 0"}]
        shell: sort < in | uniq > out
        resources: {cpu: 0.5, memory: 512Mi}

`read_definition` reports every issue that it can find, with its line: its own, and those of
`core/admission/validate_submission.py`, the server's rules. Faults that only the server finds come back as pointers,
which `ParsedFile.locate_faults` maps to lines. The strict form is accepted as well, also field by field beside the
user-facing one.

To add a field: a line in one of the tables of `definitions/files/job_fields.py`.
"""

from __future__ import annotations

import msgspec

from mainspring.core.admission.validate_submission import Limits, decode_job
from mainspring.definitions.files.drafts import ParsedFile, invalid
from mainspring.definitions.files.job_drafts import JobDraft
from mainspring.definitions.files.sources import parse
from mainspring.definitions.pipeline_file import is_pipeline, read_pipeline
from mainspring.protocol.errors import Refused


def read_definition(text: str, file: str) -> ParsedFile:
    """Parse a job file. Raises InvalidFile, with the lines, if it has issues.

    A pipeline file is accepted; its schedule is ignored.
    """
    if text.lstrip().startswith("{") and (strict := _read_strict(text, file)) is not None:
        return strict
    root, issues = parse(text)
    if root is None:
        raise invalid(file, text, issues)
    if is_pipeline(root):
        pipeline = read_pipeline(text, file)
        return ParsedFile(
            file=file, text=text, body=pipeline.job, name=pipeline.id, places=pipeline.places, params=pipeline.constants
        )
    draft = JobDraft(issues)
    job = draft.job(root)
    body = msgspec.json.encode(job)
    draft.check(body)
    if issues:
        raise invalid(file, text, issues)
    return ParsedFile(file=file, text=text, body=body, name=str(job["name"]), places=draft.places)


def _read_strict(text: str, file: str) -> ParsedFile | None:
    """Return a file that is already in the strict form: a large one takes a second this way, and minutes with
    positions."""
    body = text.encode()
    try:
        spec = decode_job(body, Limits())
    except Refused:
        return None
    return ParsedFile(file=file, text=text, body=body, name=spec.name, places={})
