"""`mainspring ca`: the certificate authority for workers and servers."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from mainspring.cli.options import Printing, with_output_options


@click.group("ca")
def ca() -> None:
    """Manage the certificate authority of workers and, optionally, servers.

    \b
    Examples:
      mainspring ca init /etc/mainspring/ca
      mainspring ca cert /etc/mainspring/ca mainspring.example.org
    """


@ca.command("init")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@with_output_options
def init(printing: Printing, directory: Path) -> None:
    """Create a certificate authority in DIRECTORY.

    Distribute `ca.crt` to all machines; give `ca.key` to servers only.

    \b
    Examples:
      mainspring ca init /etc/mainspring/ca
    """
    from mainspring.protocol.certificates import AUTHORITY_CERTIFICATE, AUTHORITY_KEY, make_authority
    from mainspring.protocol.clock import SystemClock

    make_authority(directory, now=SystemClock().wall())
    _print_created(directory, (AUTHORITY_CERTIFICATE, AUTHORITY_KEY), printing)


@ca.command("cert")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("hosts", nargs=-1, required=True)
@with_output_options
def cert(printing: Printing, directory: Path, hosts: tuple[str, ...]) -> None:
    """Create a server certificate, signed by the CA in DIRECTORY.

    HOSTS are the names and addresses of the server.

    \b
    Examples:
      mainspring ca cert /etc/mainspring/ca mainspring.example.org 10.0.0.5
    """
    from mainspring.protocol import certificates
    from mainspring.protocol.clock import SystemClock

    key = certificates.make_key()
    authority = certificates.Authority(
        directory / certificates.AUTHORITY_CERTIFICATE, directory / certificates.AUTHORITY_KEY
    )
    made = authority.sign_server(key, hosts, now=SystemClock().wall())
    name = hosts[0].replace(":", "-")
    certificates.write_new(directory / f"{name}.key", certificates.key_text(key), 0o600)
    certificates.write_new(directory / f"{name}.crt", made, 0o644)
    _print_created(directory, (f"{name}.crt", f"{name}.key"), printing)


def _print_created(directory: Path, names: tuple[str, ...], printing: Printing) -> None:
    from mainspring.cli.render.output import ActionOutcome, print_outcomes

    print_outcomes([ActionOutcome(id=str(directory / name), action="create", changed=True) for name in names], printing)
