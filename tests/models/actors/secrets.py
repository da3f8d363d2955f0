"""Certificates and tokens, made for one test with the openssl command."""

import subprocess
from hashlib import sha256
from pathlib import Path

from tierledger.actors.door.security.settings import (
    CA_KEY,
    CERTIFICATE_KEY,
    KEY_KEY,
    TOKEN_KEY,
    DoorSecurity,
)

LOOPBACK = "IP:127.0.0.1,IP:::1,DNS:localhost"

TOKENS = {
    "broker:1": "token-of-broker-one-0123456789",
    "broker:3": "token-of-broker-three-0123456789",
    "broker:*": "token-of-any-broker-0123456789",
    "reader": "token-of-a-reader-0123456789",
    "admin": "token-of-an-admin-0123456789",
    "host": "token-of-the-hosts-0123456789",
}


def openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class Authority:
    """A certificate authority; its own certificate is `certificate`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self.certificate = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", self._key, "-out", self.certificate, "-subj", f"/CN={name}"),
        )

    def issue(
        self, file: str, common_name: str, names: str | None = LOOPBACK, days: int = 2
    ) -> tuple[Path, Path]:
        """Files of a certificate and its key. With negative `days` it has expired."""
        certificate, key = self._folder / f"{file}.pem", self._folder / f"{file}.key"
        request, extensions = self._folder / "request.pem", self._folder / "extensions"
        openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", key, "-out", request, "-subj", f"/CN={common_name}"),
        )
        extensions.write_text(
            f"subjectAltName={names}" if names else "keyUsage=digitalSignature"
        )
        openssl(
            *("x509", "-req", "-in", request, "-out", certificate, "-extfile", extensions),
            *("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial"),
            *("-days", str(days)),
        )
        return certificate, key


def line(token: str, identity: str, expiry: str = "") -> str:
    return f"{sha256(token.encode()).hexdigest()} {identity} {expiry}\n"


def token_file(folder: Path, identity: str) -> str:
    """Write the file with which a client presents the token of `identity`."""
    path = folder / f"{identity.replace('*', 'any')}.token"
    path.write_text(f"{TOKENS[identity]}\n")
    return str(path)


def token_list(folder: Path) -> Path:
    """Write the service's list of all `TOKENS`."""
    path = folder / "tokens"
    path.write_text("# Whose they are.\n\n" + "".join(line(TOKENS[one], one) for one in TOKENS))
    return path


class Secrets:
    """A folder with the certificates, keys and tokens of a service and its clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.pair = self.authority.issue("host", "host")
        self.tokens = token_list(folder)

    def door(self, *, mutual: bool = False, tokens: bool = True) -> DoorSecurity:
        """The hosts' settings of security."""
        ca = str(self.authority.certificate)
        return DoorSecurity(
            certificate=str(self.pair[0]),
            key=str(self.pair[1]),
            client_ca=ca if mutual else None,
            tokens=str(self.tokens) if tokens else None,
            host_token=token_file(self.folder, "host") if tokens else None,
            ca=ca,
        )

    def client(
        self, identity: str | None = None, pair: tuple[Path, Path] | None = None
    ) -> dict[str, str]:
        """A client's settings: the token of `identity`, and the certificate and key `pair`."""
        config = {CA_KEY: str(self.authority.certificate)}
        if identity is not None:
            config[TOKEN_KEY] = token_file(self.folder, identity)
        if pair is not None:
            config |= {CERTIFICATE_KEY: str(pair[0]), KEY_KEY: str(pair[1])}
        return config
