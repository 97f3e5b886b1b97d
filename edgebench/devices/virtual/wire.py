"""ADB packets: a header of six little-endian words and a payload (AOSP, packages/modules/adb/protocol.txt)."""

from __future__ import annotations

import socket
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

VERSION_WITH_CHECKSUM = 0x01000000
VERSION_WITHOUT_CHECKSUM = 0x01000001
FIRST_MAX_PAYLOAD = 4096  # before both sides have said theirs; AOSP's MAX_PAYLOAD_V1
LARGEST_PAYLOAD = 1024 * 1024

_HEADER = struct.Struct("<6I")


class Command(IntEnum):
    """The first word of a packet: four letters of ASCII, read as a little-endian number."""

    CNXN = 0x4E584E43
    AUTH = 0x48545541
    OPEN = 0x4E45504F
    OKAY = 0x59414B4F
    CLSE = 0x45534C43
    WRTE = 0x45545257


class AuthKind(IntEnum):
    """The first argument of an AUTH packet."""

    TOKEN = 1
    SIGNATURE = 2
    PUBLIC_KEY = 3


class WireError(ConnectionError):
    """The other side sent what is no ADB packet, or went away."""


@dataclass(frozen=True, slots=True)
class Packet:
    command: int
    arg0: int
    arg1: int
    payload: memoryview


def checksum(payload: memoryview | bytes) -> int:
    """The sum of all bytes, 32 bit.

    Adler-32's low half is 1 + the sum, modulo 65521: exact for 256 bytes, and far quicker than a loop over them.
    """
    return sum((zlib.adler32(payload[start : start + 256]) & 0xFFFF) - 1 for start in range(0, len(payload), 256))


def fits_checksum(payload: memoryview, total: int) -> bool:
    """Whether `total` is the payload's checksum, modulo 65521: one call, which keeps big pushes quick."""
    return zlib.adler32(payload) & 0xFFFF == (total + 1) % 65521


def pack_header(command: Command, arg0: int, arg1: int, payload: bytes | memoryview, *, with_checksum: bool) -> bytes:
    total = checksum(payload) if with_checksum else 0
    return _HEADER.pack(command, arg0, arg1, len(payload), total, command ^ 0xFFFFFFFF)


def receive(
    connection: socket.socket,
    *,
    max_payload: int,
    with_checksum: bool,
    chunk_bytes: int | None = None,
    on_bytes: Callable[[int], None] = lambda count: None,
) -> Packet:
    """The next packet; `on_bytes` is told each piece of at most `chunk_bytes` as it arrives.

    Raises:
        WireError: the other side closed, or the packet is broken or longer than `max_payload`.
    """
    header = bytearray(_HEADER.size)
    _fill(connection, memoryview(header), _HEADER.size, on_bytes)
    command, arg0, arg1, length, total, magic = _HEADER.unpack(header)
    if command ^ 0xFFFFFFFF != magic:
        raise WireError("a packet's magic word does not match its command")
    if length > max_payload:
        raise WireError(f"a packet of {length} bytes is longer than the {max_payload} that were agreed")
    payload = memoryview(bytearray(length))
    _fill(connection, payload, chunk_bytes or length, on_bytes)
    if with_checksum and not fits_checksum(payload, total):
        raise WireError("a packet's checksum does not match its payload")
    return Packet(command, arg0, arg1, payload)


def _fill(connection: socket.socket, target: memoryview, chunk_bytes: int, on_bytes: Callable[[int], None]) -> None:
    done = 0
    while done < len(target):
        count = connection.recv_into(target[done : done + chunk_bytes])
        if count == 0:
            raise WireError("the other side closed the connection")
        done += count
        on_bytes(count)
