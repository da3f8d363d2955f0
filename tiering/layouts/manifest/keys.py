"""The RSA keys of a tier, and the AES key of a segment that is wrapped with one of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tierledger.events.errors import CorruptRemoteData, InvalidArgument, RejectedError
from tierledger.events.extras import naming_extras

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES: Final = 12
"""Each encrypted piece begins with as many bytes that only this piece has."""

_HASH: Final = hashlib.sha3_512
_HASH_BYTES: Final = 64


class Encryption(NamedTuple):
    """How a segment was encrypted."""

    key_id: str
    """The id of the RSA key pair with which the segment's AES key was wrapped."""
    wrapped_key: bytes
    aad: bytes
    """Bytes that authenticate every piece together with it."""


class Cipher:
    """Decrypts the pieces of one segment."""

    def __init__(self, key: AESGCM, aad: bytes) -> None:
        self._key = key
        self._aad = aad

    def decrypted(self, data: bytes, name: str) -> bytes:
        """The content of one piece; `name` is for errors.

        Raises:
            CorruptRemoteData: It is not what was encrypted with this segment's key.
        """
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415

        try:
            return self._key.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], self._aad)
        except (InvalidTag, ValueError) as error:
            raise CorruptRemoteData(
                f"{name}: expected what the segment's key has encrypted, found {len(data)} "
                "other bytes"
            ) from error


class PrivateKeys:
    """RSA private keys by id. Each file is read when its key is first needed."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        """`files` are in PEM, as the plugin reads them, too."""
        self._files = files
        self._keys: dict[str, RSAPrivateKey] = {}

    @classmethod
    def of(cls, text: str) -> PrivateKeys:
        """The keys that `text` names as ID=FILE, several with commas between.

        Raises:
            InvalidArgument: `text` has another form, or an id twice.
        """
        files: dict[str, Path] = {}
        for one in filter(None, text.split(",")):
            key_id, separator, file = one.strip().partition("=")
            if not (key_id and separator and file) or key_id in files:
                raise InvalidArgument(
                    f"expected a tier's keys as ID=FILE,ID=FILE with each id once, got {one!r}"
                )
            files[key_id] = Path(file).expanduser()
        return cls(files)

    def cipher(self, encryption: Encryption, name: str) -> Cipher:
        """What decrypts the segment of the manifest `name`. It blocks.

        Raises:
            RejectedError: There is no such key, or another one has its id.
            InvalidArgument: The key's file cannot be read.
        """
        with naming_extras():
            # Imported here: only encrypted segments need it.
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415
        key_id = encryption.key_id
        if key_id not in self._files:
            given = ", ".join(map(repr, self._files)) or "none"
            raise RejectedError(
                f"{name}: the segment is encrypted with the key {key_id!r}; expected its PEM "
                f"file among the tier's keys, got {given}"
            )
        unwrapped = _unwrapped(self._key(key_id), encryption.wrapped_key)
        if unwrapped is None:
            raise RejectedError(
                f"{name}: the segment is encrypted with another key than that of {key_id!r} in "
                f"{self._files[key_id]}"
            )
        return Cipher(AESGCM(unwrapped), encryption.aad)

    def _key(self, key_id: str) -> RSAPrivateKey:
        from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric.rsa import (  # noqa: PLC0415
            RSAPrivateKey,
        )
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
            load_pem_private_key,
        )

        if key_id not in self._keys:
            file = self._files[key_id]
            try:
                key = load_pem_private_key(file.read_bytes(), None)
            except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
                why = error.strerror if isinstance(error, OSError) else "it is none"
                raise InvalidArgument(
                    f"key {key_id!r}: expected a private key in PEM in {file}: {why}"
                ) from error
            if not isinstance(key, RSAPrivateKey):
                raise InvalidArgument(f"key {key_id!r}: expected an RSA key in {file}")
            self._keys[key_id] = key
        return self._keys[key_id]


def _unwrapped(key: RSAPrivateKey, wrapped: bytes) -> bytes | None:
    """The AES key in `wrapped`; none if it was wrapped for another RSA key.

    OAEP with SHA3-512, also for its mask. `cryptography` does not have that combination.
    """
    numbers, size = key.private_numbers(), key.key_size // 8
    secret = int.from_bytes(wrapped, "big")
    if len(wrapped) != size or secret >= numbers.public_numbers.n:
        return None
    # By the two primes: a quarter of the time that one power would take.
    by_p, by_q = pow(secret, numbers.dmp1, numbers.p), pow(secret, numbers.dmq1, numbers.q)
    factor = (by_p - by_q) * numbers.iqmp % numbers.p
    padded = (by_q + factor * numbers.q).to_bytes(size, "big")
    masked_seed, masked_data = padded[1 : 1 + _HASH_BYTES], padded[1 + _HASH_BYTES :]
    data = _xor(masked_data, _mask(_xor(masked_seed, _mask(masked_data, _HASH_BYTES)), size))
    label, _, content = data[:_HASH_BYTES], *data[_HASH_BYTES:].partition(b"\1")[1:]
    if padded[0] or label != _HASH().digest() or len(content) not in {16, 24, 32}:
        return None
    return content


def _mask(seed: bytes, size: int) -> bytes:
    rounds = range(-(-size // _HASH_BYTES))
    return b"".join(_HASH(seed + at.to_bytes(4, "big")).digest() for at in rounds)[:size]


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=False))
