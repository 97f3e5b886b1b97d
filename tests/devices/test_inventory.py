"""The inventory: files of the user's and the shipped ones."""

from __future__ import annotations

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
    assert [spec.name for spec in list_devices()] == ["host"]
    device = open_device("host")
    assert isinstance(device, Host)
    device.close()


def test_a_users_file_adds_a_device_or_replaces_the_shipped_one(devices):
    (devices / "bench-pc.yaml").write_text("driver: host\ndescription: quiet\n")
    (devices / "host.yaml").write_text("driver: host\ndescription: mine\n")
    assert [(spec.name, spec.description) for spec in list_devices()] == [("bench-pc", "quiet"), ("host", "mine")]


def test_an_unknown_device_names_the_nearest_and_the_file_to_write(devices):
    (devices / "bench-pc.yaml").write_text("driver: host\n")
    with pytest.raises(InputError) as error:
        open_device("benchpc")
    assert str(error.value) == (
        "there is no device 'benchpc'; did you mean 'bench-pc'?; add one as devices/benchpc.yaml"
    )
    with pytest.raises(InputError, match="there is no device 'xyz'; known: bench-pc, host; add one"):
        open_device("xyz")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("driver: hots\n", "there is no driver 'hots'; did you mean 'host'?"),
        ("drivr: host\n", "did you mean 'driver'?"),
        ("description: x\n", "driver"),
        ("- host\n", "bad.yaml"),
        ("driver: [\n", "bad.yaml"),
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
