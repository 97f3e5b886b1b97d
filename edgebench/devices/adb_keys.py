"""The RSA key that tells an Android device who we are."""

from __future__ import annotations

import base64
import os
import tempfile
import threading
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.cache_folder import cache_folder
from edgebench.errors import ConfigError, one_line

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

_ONE_READER = threading.Lock()  # the others find what the first one read


class Signer:
    """What adb-shell signs with. Its own signer computes in Python: 50 devices would wait seconds for each other."""

    def __init__(self, key: RSAPrivateKey, public: bytes) -> None:
        self._key = key
        self._public = public

    def Sign(self, data: bytes) -> bytes:  # adb-shell's names
        """The signature of a device's token, which stands for a SHA-1 digest (AOSP, adb's protocol)."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import padding, utils

        return self._key.sign(data, padding.PKCS1v15(), utils.Prehashed(hashes.SHA1()))

    def GetPublicKey(self) -> bytes:
        return self._public


def signer() -> Signer:
    """A signer with the user's own adb key, which a phone may know already, else with one of edgebench.

    Raises:
        ConfigError: the key can't be read or made.
    """
    key = key_file()
    try:
        if not key.is_file():
            _make(key)
        with _ONE_READER:
            return _read(key, key.stat().st_mtime_ns)
    except Exception as error:  # adb-shell and its RSA library raise what they like for a file that is no key
        raise ConfigError(
            f"the adb key {key} can't be used ({one_line(error)}); move it away to get a new one"
        ) from error


def key_file() -> Path:
    """Where the private key is, or will be made."""
    users = Path.home() / ".android" / "adbkey"
    return users if users.is_file() else cache_folder("adb") / "adbkey"


def public_key() -> bytes:
    """The public half, as a device keeps it; raises as `signer` does."""
    return signer().GetPublicKey()


@lru_cache(maxsize=4)  # proving a key takes longer than connecting with it
def _read(key: Path, changed_ns: int) -> Signer:
    """The signer of a key file as it was at `changed_ns`."""
    from adb_shell.auth.keygen import encode_pubkey, get_user_info
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    private = load_pem_private_key(key.read_bytes(), None)
    if not isinstance(private, RSAPrivateKey):
        raise ValueError("it is no RSA key")
    # From the private key, so that the two can't differ.
    return Signer(private, base64.b64encode(encode_pubkey(str(key))) + get_user_info().encode())


def _make(key: Path) -> None:
    """A new private key, readable for this user only; another process that makes one at the same time wins or loses."""
    from adb_shell.auth.keygen import keygen

    key.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="adbkey-", dir=key.parent) as folder:  # a folder of mode 0700
        new = Path(folder) / "adbkey"
        keygen(str(new))
        new.chmod(0o600)
        try:
            os.link(new, key)
        except FileExistsError:
            return
