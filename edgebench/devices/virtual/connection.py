"""One client's connection: who it is, and the streams that it opens over the one socket."""

from __future__ import annotations

import collections
import contextlib
import itertools
import socket
import struct
import threading
import time
from collections.abc import Callable

from edgebench.devices.virtual import wire
from edgebench.devices.virtual.auth import Keyring, new_token
from edgebench.devices.virtual.profile import Age
from edgebench.devices.virtual.state import PhoneState
from edgebench.devices.virtual.wire import AuthKind, Command, Packet

_INBOX_PACKETS = 2  # received and not yet used, for each stream

_SLOW_PIECES_PER_S = 20  # how finely a slow link's bytes are spread


class StreamClosedError(ConnectionError):
    """The client closed this stream, or the connection is gone."""


Service = Callable[["Stream"], None]
Router = Callable[[str], "Service | None"]


class Connection:
    """Reads packets in the thread that calls `serve`; each stream's service runs in a thread of its own."""

    def __init__(
        self, link: socket.socket, state: PhoneState, keyring: Keyring, route: Router, accepts_any: bool
    ) -> None:
        self._link = link
        self._state = state
        self._keyring = keyring
        self._route = route
        self._accepts_any_key = accepts_any
        self._send_lock = threading.Lock()
        self._streams: dict[int, Stream] = {}
        self._ids = itertools.count(1)
        self._token = b""
        self._is_trusted = False
        age: Age = state.profile.age
        self._with_checksum = True
        self._own_version, self._own_max_payload = age.version, age.max_payload
        self.max_payload = wire.FIRST_MAX_PAYLOAD

    def serve(self) -> None:
        """Answer until the client goes away, then end every stream."""
        try:
            while True:
                packet = self._receive()
                if not self._state.faults.is_offline:
                    self._answer(packet)
        except OSError:
            pass  # the client is gone, or what it sent is no ADB: either way the connection ends
        finally:
            self.abort()
            for stream in list(self._streams.values()):
                stream.on_close()

    def abort(self) -> None:
        """Cut the connection; `serve` ends then."""
        with contextlib.suppress(OSError):
            self._link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._link.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._link.close()

    def send(self, command: Command, arg0: int, arg1: int, payload: bytes | memoryview = b"") -> None:
        if self._state.faults.is_offline:
            return
        header = wire.pack_header(command, arg0, arg1, payload, with_checksum=self._with_checksum)
        with self._send_lock:
            if len(payload) <= 16384:
                self._send_bytes(header + payload)
            else:
                self._send_bytes(header)
                self._send_bytes(payload)

    def forget(self, stream: Stream) -> None:
        self._streams.pop(stream.local_id, None)

    def _send_bytes(self, data: bytes | memoryview) -> None:
        piece = self._piece_bytes() or max(len(data), 1)
        for start in range(0, len(data), piece):
            part = data[start : start + piece]
            self._link.sendall(part)
            self._wait_for_slow_link(len(part))

    def _receive(self) -> Packet:
        return wire.receive(
            self._link,
            max_payload=self._own_max_payload,
            with_checksum=self._with_checksum and self._is_trusted,
            chunk_bytes=self._piece_bytes(),
            on_bytes=self._wait_for_slow_link,
        )

    def _piece_bytes(self) -> int | None:
        rate = self._state.faults.link_bytes_per_s
        return None if rate is None else max(1, int(rate / _SLOW_PIECES_PER_S))

    def _wait_for_slow_link(self, count: int) -> None:
        rate = self._state.faults.link_bytes_per_s
        if rate is not None:
            time.sleep(count / rate)

    def _answer(self, packet: Packet) -> None:
        match packet.command:
            case Command.CNXN:
                self._agree(packet.arg0, packet.arg1)
                self._ask_who()
            case Command.AUTH:
                self._authenticate(packet)
            case Command.OPEN if self._is_trusted:
                self._open(packet)
            case Command.OKAY | Command.WRTE | Command.CLSE if self._is_trusted:
                self._pass_to_stream(packet)
            case _:
                pass  # as the real daemon: a packet out of turn is dropped

    def _agree(self, version: int, max_payload: int) -> None:
        self._with_checksum = min(version, self._own_version) < wire.VERSION_WITHOUT_CHECKSUM
        self.max_payload = max(1, min(max_payload, self._own_max_payload))

    def _ask_who(self) -> None:
        self._is_trusted = False
        self._token = new_token()
        self.send(Command.AUTH, AuthKind.TOKEN, 0, self._token)

    def _authenticate(self, packet: Packet) -> None:
        payload = bytes(packet.payload)
        is_barred = self._state.faults.is_unauthorized
        if packet.arg0 == AuthKind.SIGNATURE:
            if not is_barred and self._keyring.knows_signer(self._token, payload):
                self._welcome()
            else:
                self._ask_who()
        elif (
            packet.arg0 == AuthKind.PUBLIC_KEY
            and self._accepts_any_key
            and not is_barred
            and self._keyring.add(payload)
        ):
            self._welcome()
        # Else the dialog stays on the phone's screen: no answer at all.

    def _welcome(self) -> None:
        self._is_trusted = True
        self.send(Command.CNXN, self._own_version, self._own_max_payload, self._state.profile.banner)

    def _open(self, packet: Packet) -> None:
        name = bytes(packet.payload).partition(b"\0")[0].decode("utf-8", "surrogateescape")
        service = self._route(name)
        if service is None or packet.arg0 == 0:
            self.send(Command.CLSE, 0, packet.arg0)
            return
        stream = Stream(self, next(self._ids), packet.arg0)
        self._streams[stream.local_id] = stream
        self.send(Command.OKAY, stream.local_id, stream.remote_id)
        threading.Thread(target=_run_service, args=(service, stream), name=f"adb {name[:20]}", daemon=True).start()

    def _pass_to_stream(self, packet: Packet) -> None:
        stream = self._streams.get(packet.arg1)
        if stream is None:
            if packet.command == Command.WRTE:
                self.send(Command.CLSE, 0, packet.arg0)
        elif packet.command == Command.WRTE:
            stream.on_data(packet.payload)
        elif packet.command == Command.OKAY:
            stream.on_ready()
        else:
            stream.on_close()
            stream.close()


class Stream:
    """One service's two-way bytes. In each direction at most one packet is on its way at a time."""

    def __init__(self, connection: Connection, local_id: int, remote_id: int) -> None:
        self.local_id, self.remote_id = local_id, remote_id
        self._connection = connection
        self._changed = threading.Condition()
        self._inbox: collections.deque[memoryview] = collections.deque()
        self._owes_okay = False
        self._is_ready = True
        self._is_ended = False  # one side closed
        self._is_closed = False  # we said CLSE
        self._write_lock = threading.Lock()

    def read(self) -> memoryview | None:
        """The next bytes; None when the client has closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._inbox or self._is_ended)
            if not self._inbox:
                return None
            data = self._inbox.popleft()
            is_owed, self._owes_okay = self._owes_okay, False
        if is_owed:
            self._say_okay()
        return data

    def write(self, data: bytes | memoryview) -> None:
        """Send all of `data`.

        Raises:
            StreamClosedError: the client closed first.
        """
        view = memoryview(data)
        with self._write_lock:
            for start in range(0, len(view), self._connection.max_payload):
                part = view[start : start + self._connection.max_payload]
                with self._changed:
                    self._changed.wait_for(lambda: self._is_ready or self._is_ended)
                    if self._is_ended:
                        raise StreamClosedError("the client closed the stream")
                    self._is_ready = False
                try:
                    self._connection.send(Command.WRTE, self.local_id, self.remote_id, part)
                except OSError as error:
                    raise StreamClosedError("the connection is gone") from error

    def close(self) -> None:
        """Say that no more comes, once everything written has been taken."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_ready or self._is_ended)
            if self._is_closed:
                return
            self._is_closed = self._is_ended = True
            self._changed.notify_all()  # whoever still waits for input
        self._connection.forget(self)
        with contextlib.suppress(OSError):
            self._connection.send(Command.CLSE, self.local_id, self.remote_id)

    def abort_connection(self) -> None:
        self._connection.abort()

    def on_data(self, data: memoryview) -> None:
        """Keep `data`, and ask for more at once while there is room: the client prepares it while this is used."""
        with self._changed:
            self._inbox.append(data)
            self._owes_okay = len(self._inbox) > _INBOX_PACKETS
            is_owed = self._owes_okay
            self._changed.notify_all()
        if not is_owed:
            self._say_okay()

    def _say_okay(self) -> None:
        with contextlib.suppress(OSError):  # what has arrived counts, even when the client is gone by now
            self._connection.send(Command.OKAY, self.local_id, self.remote_id)

    def on_ready(self) -> None:
        with self._changed:
            self._is_ready = True
            self._changed.notify_all()

    def on_close(self) -> None:
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()


def _run_service(service: Service, stream: Stream) -> None:
    try:
        service(stream)
    except OSError:
        pass  # the client is gone, or this machine refused a process or a file: the client sees the stream close
    finally:
        stream.close()
