"""How a machine is addressed over SSH, with what ~/.ssh/config says about it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from edgebench.errors import ConfigError

_FORM = re.compile(
    r"(?:(?P<user>[^@\s:]+)@)?(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^\s@:\[\]-][^\s@:\[\]]*)(?::(?P<port>\d+))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshAddress:
    """`host` may be a name of ~/.ssh/config; None is what that file, or the user's name and port 22, give."""

    host: str
    user: str | None = None
    port: int | None = None


def parse(address: str | None, device: str) -> SshAddress:
    """The address in the file of `device`: "USER@HOST:PORT", user and port optional.

    Raises:
        ConfigError: there is none, or it is not of this form.
    """
    found = _FORM.fullmatch(address or "")
    if found is None or (found["port"] is not None and not 0 < int(found["port"]) < 65536):
        said = "has no `address:`" if address is None else f"has address '{address}'"
        raise ConfigError(f"device '{device}' {said}; needed: USER@HOST or USER@HOST:PORT, such as pi@192.168.0.7")
    port = None if found["port"] is None else int(found["port"])
    return SshAddress(host=found["host"].strip("[]"), user=found["user"], port=port)
