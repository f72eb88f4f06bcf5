"""Pipeline templates: files of the package, each a `pipeline.yaml` that runs unchanged.

The first line, a comment, is the description. To add one, add its file.
"""

from __future__ import annotations

from importlib.resources import files

import msgspec

from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import NotFound

_SUFFIX = ".yaml"


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline template."""

    name: str
    about: str
    text: str


def templates() -> list[Template]:
    """Return all templates, sorted by name."""
    found = [file for file in files("mainspring").joinpath("templates").iterdir() if file.name.endswith(_SUFFIX)]
    read = (_read(file.name.removesuffix(_SUFFIX), file.read_text("utf-8")) for file in found)
    return sorted(read, key=lambda template: template.name)


def find_template(name: str) -> Template:
    """Return the template with this name. Raises NotFound."""
    known = {template.name: template for template in templates()}
    if name not in known:
        hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
        raise NotFound(f"unknown template {name!a}{hint}")
    return known[name]


def _read(name: str, text: str) -> Template:
    return Template(name=name, about=text.partition("\n")[0].lstrip("# "), text=text)
