"""Worker certificates, and the cluster's certificate authority that signs them (SEC-3).

    authority    `ca.crt`, `ca.key`: created once by `mainspring ca init`, installed on every server of the cluster
    worker       its key never leaves its machine; the certificate names it as `mainspring:worker:NAME`
    server       for installations without another authority: host names, signed by the same one

All keys are on the curve P-256, supported by every TLS library. A worker's certificate is for clients only, a server's
for servers only: neither is accepted in place of the other. Needs the package `cryptography` (extra `enroll`).
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainspring.atomic_files import create_file
from mainspring.protocol.errors import Fault, Refused

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

WORKER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
AUTHORITY_CERTIFICATE, AUTHORITY_KEY = "ca.crt", "ca.key"
AUTHORITY_LIFE = timedelta(days=3650)
SERVER_LIFE = timedelta(days=397)
"""Maximum that browsers accept."""
SKEW = timedelta(minutes=5)
"""Certificates are backdated by this much to tolerate clock skew."""
MAX_REQUEST_BYTES = 8 * 1024
_WORKER = "mainspring:worker:"
_MAX_COMMON_NAME_LENGTH = 64


class WorkerCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a worker's certificate."""

    name: str
    key: str
    """SHA-256 of its public key, in hexadecimal."""
    serial: str
    """In hexadecimal."""
    begins_at: datetime
    expires_at: datetime


class Authority:
    """The certificate authority of workers."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Load the authority. Raises Refused if the files are invalid or don't belong together."""
        with _needed():
            from cryptography.hazmat.primitives.asymmetric import ec
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
            from cryptography.x509 import load_pem_x509_certificate
        try:
            self._certificate = load_pem_x509_certificate(certificate.read_bytes())
            found = load_pem_private_key(key.read_bytes(), password=None)
        except (OSError, ValueError, TypeError) as error:
            raise Refused(f"can't read the worker authority: {error}") from error
        if not isinstance(found, ec.EllipticCurvePrivateKey) or found.public_key() != self._certificate.public_key():
            raise Refused(f"{key} is not the key of {certificate}")
        self._key = found

    def sign_worker(self, request: str, name: str, *, now: datetime, life: timedelta) -> tuple[str, WorkerCertificate]:
        """Sign a worker's request under this name; return the certificate in PEM, and its content.

        All other content of the request is ignored. Raises Refused.
        """
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = _requested_key(request)
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(f"{_WORKER}{name}")]
        builder = _builder(name, key, self._certificate.subject, now=now, life=life, names=names)
        builder = _for(builder, ExtendedKeyUsageOID.CLIENT_AUTH)
        return self._sign(builder)

    def sign_server(self, key: EllipticCurvePrivateKey, hosts: Sequence[str], *, now: datetime) -> str:
        """Return a server certificate in PEM for these host names and addresses."""
        from cryptography.x509.oid import ExtendedKeyUsageOID

        builder = _builder(
            hosts[0], key.public_key(), self._certificate.subject, now=now, life=SERVER_LIFE, names=_host_names(hosts)
        )
        return self._sign(_for(builder, ExtendedKeyUsageOID.SERVER_AUTH))[0]

    def _sign(self, builder: x509.CertificateBuilder) -> tuple[str, WorkerCertificate]:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.serialization import Encoding

        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = builder.add_extension(issuer, critical=False).sign(self._key, hashes.SHA256())
        return made.public_bytes(Encoding.PEM).decode(), _described(made)


def make_authority(directory: Path, *, now: datetime) -> None:
    """Create an authority: its certificate, and its key readable by the owner only. Raises Refused if there is one."""
    with _needed():
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.serialization import Encoding

    key = make_key()
    name = "Mainspring workers"
    builder = _builder(name, key.public_key(), _named(name), now=now, life=AUTHORITY_LIFE, names=())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs=True), critical=True)
    made = builder.sign(key, hashes.SHA256())
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_new(directory / AUTHORITY_KEY, key_text(key), 0o600)
    write_new(directory / AUTHORITY_CERTIFICATE, made.public_bytes(Encoding.PEM).decode(), 0o644)


def make_key() -> EllipticCurvePrivateKey:
    """Return a new key. Raises Refused if `cryptography` is not installed."""
    with _needed():
        from cryptography.hazmat.primitives.asymmetric import ec
    return ec.generate_private_key(ec.SECP256R1())


def key_text(key: EllipticCurvePrivateKey) -> str:
    """Return a key in PEM, unencrypted: the permissions of its file protect it."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def make_request(key_pem: str, name: str) -> str:
    """Return a certificate request in PEM, signed with the key in `key_pem` as proof of possession."""
    with _needed():
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
    key = load_pem_private_key(key_pem.encode(), password=None)
    assert isinstance(key, EllipticCurvePrivateKey)
    request = x509.CertificateSigningRequestBuilder().subject_name(_named(name)).sign(key, hashes.SHA256())
    return request.public_bytes(Encoding.PEM).decode()


def read_certificate(pem: str) -> WorkerCertificate:
    """Return the content of a worker's certificate. Raises Refused if it is invalid."""
    with _needed():
        from cryptography.x509 import load_pem_x509_certificate
    try:
        return _described(load_pem_x509_certificate(pem.encode()))
    except ValueError as error:
        raise Refused(f"invalid certificate: {error}") from error


def read_peer(der: bytes) -> WorkerCertificate:
    """Return the content of a peer's certificate, in DER. TLS verifies it."""
    return read_certificate(ssl.DER_cert_to_PEM_cert(der))


def write_new(path: Path, text: str, mode: int) -> None:
    """Create a file with this mode; it must not exist. Raises Refused."""
    try:
        create_file(path, text.encode(), mode)
        path.chmod(mode)
    except OSError as error:
        raise Refused(f"can't write {path}: {error.strerror}") from error


def check_installed() -> None:
    """Raise Refused if `cryptography` is not installed."""
    with _needed():
        import cryptography  # noqa: F401 - only whether it is there


def _described(made: x509.Certificate) -> WorkerCertificate:
    return WorkerCertificate(
        name=_worker_name(made),
        key=_key_hash(made),
        serial=f"{made.serial_number:x}",
        begins_at=made.not_valid_before_utc,
        expires_at=made.not_valid_after_utc,
    )


def _worker_name(made: x509.Certificate) -> str:
    """Return the worker name in a certificate; empty if there is none."""
    from cryptography import x509

    try:
        names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ""
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    return next((uri.removeprefix(_WORKER) for uri in uris if uri.startswith(_WORKER)), "")


def _key_hash(made: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return sha256(made.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def _requested_key(text: str) -> object:
    """Return the key of a request that was signed with it. Raises Refused."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509 import InvalidVersion, load_pem_x509_csr

    try:
        request = load_pem_x509_csr(text.encode())
        key = request.public_key()
        is_signed = request.is_signature_valid
    except (ValueError, UnsupportedAlgorithm, InvalidVersion) as error:
        raise _fault_of_request(f"is invalid: {error}") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise _fault_of_request("must be for a key on the curve P-256")
    if not is_signed:
        raise _fault_of_request("is not signed with its own key")
    return key


def _fault_of_request(why: str) -> Refused:
    return Refused("the request has 1 fault", [Fault(where="request", why=why)])


def _builder(
    name: str, key: object, issuer: x509.Name, *, now: datetime, life: timedelta, names: Sequence[x509.GeneralName]
) -> x509.CertificateBuilder:
    from cryptography import x509

    builder = (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(issuer)
        .public_key(key)  # type: ignore[arg-type]  # one of the kinds of keys
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + life)
    )
    return builder.add_extension(x509.SubjectAlternativeName(names), critical=False) if names else builder


def _for(builder: x509.CertificateBuilder, purpose: x509.ObjectIdentifier) -> x509.CertificateBuilder:
    """Restrict a certificate to one purpose: not an authority."""
    from cryptography import x509

    return (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=True)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=signs, crl_sign=signs, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _named(name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_MAX_COMMON_NAME_LENGTH])])


def _host_names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    from cryptography import x509

    names: list[x509.GeneralName] = []
    for host in hosts:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            names.append(x509.DNSName(host))
    return names


@contextmanager
def _needed() -> Iterator[None]:
    """Guard an import that may be missing."""
    try:
        yield
    except ImportError as error:
        raise Refused("certificates require the extra enroll\nhint: pip install 'mainspring[enroll]'") from error
