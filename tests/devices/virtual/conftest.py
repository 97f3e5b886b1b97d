"""A virtual phone, keys that it knows, and real ADB clients that speak to it over sockets."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("cryptography")
pytest.importorskip("adb_shell")
from adb_shell.auth.keygen import keygen
from virtual_clients import Client

from edgebench.devices.virtual import Age, Faults, Profile, VirtualPhone


@pytest.fixture(scope="session")
def key(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "adbkey"
    keygen(str(path))
    return path


@pytest.fixture
def phone(tmp_path, key):
    with VirtualPhone(Profile(), tmp_path / "phone", authorized_keys=[Path(f"{key}.pub")]) as phone:
        yield phone


@pytest.fixture
def phone_of_age(tmp_path, key):
    phones = []

    def make(age, faults=None):
        root = tmp_path / f"phone-{len(phones)}"
        phones.append(
            VirtualPhone(Profile(age=Age(age)), root, faults or Faults(), authorized_keys=[Path(f"{key}.pub")])
        )
        phones[-1].start()
        return phones[-1]

    yield make
    for phone in phones:
        phone.stop()


@pytest.fixture
def connect(key):
    clients = []

    def open_client(phone):
        clients.append(Client(phone.address, key))
        return clients[-1]

    yield open_client
    for client in clients:
        client.close()


@pytest.fixture(scope="session")
def adb(tmp_path_factory, key):
    """The `adb` command with a server and a key folder of its own; its server is ended afterwards."""
    program = shutil.which("adb")
    if program is None:
        pytest.skip("needs the adb command")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"ANDROID_ADB_SERVER_PORT": str(port), "HOME": str(tmp_path_factory.mktemp("home"))}
    environment["ADB_VENDOR_KEYS"] = str(key)

    def run(*arguments, **options):
        return subprocess.run([program, *arguments], env=environment, capture_output=True, timeout=60, **options)

    run("start-server")
    run.port = port
    yield run
    run("kill-server")
