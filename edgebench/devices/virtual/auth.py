"""Which keys a virtual phone lets in: RSA keys in Android's form, and signatures of a token."""

from __future__ import annotations

import base64
import binascii
import os
import struct
import threading
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.errors import ConfigError, missing_extra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

TOKEN_BYTES = 20  # a SHA-1 digest's size: the client signs the token as if it were one

_MODULUS_BYTES = 256
_ANDROID_KEY = struct.Struct(f"<II{_MODULUS_BYTES}s{_MODULUS_BYTES}sI")  # words, n0inv, modulus, rr, exponent


class Keyring:
    """The keys that may connect; safe to use from several connections at once."""

    def __init__(self, files: Iterable[Path] = ()) -> None:
        """Keys of `files`, each with one public key a line, as `~/.android/adbkey.pub` has.

        Raises:
            ConfigError: a file can't be read or holds what is no ADB key.
            MissingError: the package cryptography is not installed.
        """
        if find_spec("cryptography") is None:
            raise missing_extra("cryptography", "lab", "the virtual phone")
        self._lock = threading.Lock()
        self._keys: list[RSAPublicKey] = []
        for path in files:
            try:
                lines = path.read_text(encoding="ascii").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"{path}: the public key file can't be read: {error}") from error
            for line in filter(None, map(str.strip, lines)):
                if not self.add(line.encode()):
                    raise ConfigError(f"{path}: holds what is no ADB public key; take ~/.android/adbkey.pub")

    def add(self, text: bytes) -> bool:
        """Let in the key that `text` (base64, a space, a name) says; False when it is no 2048-bit RSA key."""
        key = _parse(text)
        if key is None:
            return False
        with self._lock:
            self._keys.append(key)
        return True

    def knows_signer(self, token: bytes, signature: bytes) -> bool:
        with self._lock:
            keys = list(self._keys)
        return any(_is_signed_by(key, token, signature) for key in keys)


def new_token() -> bytes:
    return os.urandom(TOKEN_BYTES)


def _parse(text: bytes) -> RSAPublicKey | None:
    from cryptography.hazmat.primitives.asymmetric import rsa

    words = text.strip(b"\0 \n").split(b" ", 1)
    try:
        _, _, modulus, _, exponent = _ANDROID_KEY.unpack(base64.b64decode(words[0], validate=True))
        return rsa.RSAPublicNumbers(exponent, int.from_bytes(modulus, "little")).public_key()
    except (binascii.Error, struct.error, ValueError):
        return None


def _is_signed_by(key: RSAPublicKey, token: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding, utils

    try:
        # SHA-1 is what the protocol prescribes.
        key.verify(signature, token, padding.PKCS1v15(), utils.Prehashed(hashes.SHA1()))
    except InvalidSignature:
        return False
    return True
