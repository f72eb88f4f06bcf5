"""`mainspring openapi`: the OpenAPI document."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.options import Printing, Reach, prints, reaches_server


@click.command("openapi")
@prints
@reaches_server
def openapi(reach: Reach, printing: Printing) -> None:
    """Print the OpenAPI document of this release, or of a server with --server or --context.

    \b
    Examples:
      mainspring openapi > openapi.json
      mainspring openapi --server http://127.0.0.1:8484 -o yaml
    """
    from mainspring.cli.config.input_files import print_body

    print_body(_document(reach), "openapi", printing)


def _document(reach: Reach) -> bytes:
    if reach.server is not None or reach.context is not None:
        with reach.client() as client:
            return client.openapi()
    import msgspec

    from mainspring import __version__
    from mainspring.api.app import endpoints
    from mainspring.api.http.openapi import document

    return msgspec.json.encode(document(endpoints(), __version__))
