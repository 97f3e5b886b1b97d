"""The inventory: files of the user's and the shipped ones."""

from __future__ import annotations

import subprocess
import sys

import pytest

from edgebench.devices.host import Host
from edgebench.devices.inventory import list_devices, open_device
from edgebench.errors import ConfigError, InputError


@pytest.fixture
def devices(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "devices").mkdir()
    return tmp_path / "devices"


def test_the_shipped_host_is_always_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "host" in [spec.name for spec in list_devices()]
    device = open_device("host")
    assert isinstance(device, Host)
    device.close()


def test_a_users_file_adds_a_device_or_replaces_the_shipped_one(devices):
    (devices / "bench-pc.yaml").write_text("driver: host\ndescription: quiet\n")
    (devices / "host.yaml").write_text("driver: host\ndescription: mine\n")
    found = {spec.name: spec.description for spec in list_devices()}
    assert (found["bench-pc"], found["host"]) == ("quiet", "mine")


def test_an_unknown_device_names_the_nearest_and_how_to_add_it(devices):
    (devices / "bench-pc.yaml").write_text("driver: host\n")
    with pytest.raises(InputError) as error:
        open_device("benchpc")
    assert str(error.value) == (
        "there is no device 'benchpc'; did you mean 'bench-pc'?; add it: edgebench devices add benchpc"
    )
    with pytest.raises(
        InputError, match=r"there is no device 'xyz'; known: bench-pc, .*; add it: edgebench devices add xyz"
    ):
        open_device("xyz")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("driver: hots\n", "there is no driver 'hots'; did you mean 'host'?"),
        ("drivr: host\n", "did you mean 'driver'?"),
        ("description: x\n", "driver"),
        ("- host\n", "bad.yaml"),
        ("driver: [\n", "bad.yaml"),
        ("driver: adb\naddress: ABC123\n", "address 'ABC123' is none of HOST:PORT, usb:SERIAL and server:SERIAL"),
        ("driver: ssh\n", "has no `address:`; needed: USER@HOST"),
        ("driver: ssh\naddress: pi@board\nfolder: tmp\n", "'tmp' must be an absolute path on the device"),
        ("driver: ssh\naddress: pi@board\npython: ''\n", "python: '' is empty"),
        ('driver: ssh\naddress: pi@board\npython: "a\\nb"\n', "python: 'a\\nb' is empty, or holds characters"),
        ("driver: host\npython: /usr/bin/python3\n", "driver host takes no `python`"),
    ],
)
def test_a_wrong_file_is_told_with_its_name_and_what_is_wrong(devices, text, message):
    (devices / "bad.yaml").write_text(text)
    with pytest.raises(ConfigError) as error:
        open_device("bad")
    assert "bad.yaml" in str(error.value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_driver_of_another_package_is_found_by_its_entry_point(devices, monkeypatch):
    package = devices.parent / "lab-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Name: lab\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[edgebench.drivers]\nlab = lab_driver:Lab\nbroken = nothing_here:X\n")
    (devices.parent / "lab_driver.py").write_text("def Lab(spec):\n    return ('lab', spec.address)\n")
    monkeypatch.syspath_prepend(str(devices.parent))
    (devices / "board.yaml").write_text("driver: lab\naddress: usb:1\n")
    assert open_device("board") == ("lab", "usb:1")
    (devices / "board.yaml").write_text("driver: broken\n")
    with pytest.raises(Exception, match="driver 'broken' of device 'board' can't be loaded: No module named"):
        open_device("board")


def test_the_list_is_made_without_the_drivers_libraries(tmp_path):
    code = (
        "import sys; from edgebench.devices.inventory import list_devices; list_devices()\n"
        "print(sorted({'adb_shell', 'adbutils', 'paramiko', 'cryptography', 'usb1', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "[]"


def test_the_shipped_files_say_how_each_kind_is_reached(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    drivers = {spec.name: spec.driver for spec in list_devices()}
    assert drivers.items() >= {"pixel-8": "adb", "coral-dev-board": "ssh", "raspberry-pi-5": "ssh"}.items()
