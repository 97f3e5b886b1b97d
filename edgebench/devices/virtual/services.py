"""Which service answers the name that a client opens."""

from __future__ import annotations

from edgebench.devices.virtual.connection import Service, Stream
from edgebench.devices.virtual.shell import serve_plain, serve_v2
from edgebench.devices.virtual.state import PhoneState
from edgebench.devices.virtual.sync import serve_sync


def route(state: PhoneState, name: str) -> Service | None:
    """The service called `name`; None refuses it, and the client is told that the stream is closed."""
    kind, _, rest = name.partition(":")
    word, *options = kind.split(",")
    match word:
        case "shell" if "v2" in options and "shell_v2" in state.profile.age.features:
            return lambda stream: serve_v2(stream, state, rest)
        case "shell" | "exec":
            return lambda stream: serve_plain(stream, state, rest)
        case "sync":
            return lambda stream: serve_sync(stream, state)
        case "features":
            return _text(",".join(state.profile.age.features))
        case "reverse":
            return _refusal("reverse forwarding is not part of the virtual phone")
        case "root":
            return _text("adbd cannot run as root in production builds\n")
        case _:
            return None  # tcp:, reboot:, remount:, jdwp ... : as a phone where nothing listens


def _text(text: str) -> Service:
    return lambda stream: stream.write(text.encode())


def _refusal(text: str) -> Service:
    def refuse(stream: Stream) -> None:
        stream.write(f"FAIL{len(text):04x}{text}".encode())

    return refuse
