"""`mainspring openapi`: the OpenAPI document."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.options import ConnectionOptions, Printing, with_connection_options, with_output_options


@click.command("openapi")
@with_output_options
@with_connection_options
def openapi(connection: ConnectionOptions, printing: Printing) -> None:
    """Print the OpenAPI document.

    Of this release, or of a server with --server or --context.

    \b
    Examples:
      mainspring openapi > openapi.json
      mainspring openapi --server http://127.0.0.1:8484 -o yaml
    """
    from mainspring.cli.config.input_files import print_body

    print_body(_document(connection), "openapi", printing)


def _document(connection: ConnectionOptions) -> bytes:
    if connection.server is not None or connection.context is not None:
        with connection.client() as client:
            return client.openapi()
    import msgspec

    from mainspring import __version__
    from mainspring.api.app import endpoints
    from mainspring.api.http.openapi import document

    return msgspec.json.encode(document(endpoints(), __version__))
