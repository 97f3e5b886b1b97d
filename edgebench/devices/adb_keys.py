"""The RSA key that tells an Android device who we are."""

from __future__ import annotations

import base64
import os
import tempfile
from pathlib import Path
from typing import Any

from edgebench.cache_folder import cache_folder
from edgebench.errors import ConfigError, one_line


def signer() -> Any:
    """adb-shell's signer with the user's own adb key, which a phone may know already, else with one of edgebench.

    Raises:
        ConfigError: the key can't be read or made.
    """
    from adb_shell.auth.keygen import encode_pubkey, get_user_info
    from adb_shell.auth.sign_pythonrsa import PythonRSASigner

    users = Path.home() / ".android" / "adbkey"
    key = users if users.is_file() else cache_folder("adb") / "adbkey"
    try:
        if not key.is_file():
            _make(key)
        # From the private key, so that the two can't differ.
        public = base64.b64encode(encode_pubkey(str(key))) + get_user_info().encode()
        return PythonRSASigner(public, key.read_text(encoding="ascii"))
    except Exception as error:  # adb-shell and its two RSA libraries raise what they like for a file that is no key
        raise ConfigError(
            f"the adb key {key} can't be used ({one_line(error)}); move it away to get a new one"
        ) from error


def public_key() -> bytes:
    """The public half, as a device keeps it; raises as `signer` does."""
    return bytes(signer().GetPublicKey())


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
