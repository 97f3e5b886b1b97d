"""`devices add` against a virtual phone."""

from __future__ import annotations

import pytest

from edgebench.devices import adb_keys, inventory
from edgebench.devices.add import add
from edgebench.devices.virtual import VirtualPhone
from edgebench.errors import ConfigError, MissingError


@pytest.fixture
def phone(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    with VirtualPhone() as phone:
        phone.let_in(adb_keys.public_key())
        yield phone


def test_a_connected_phone_becomes_a_device_of_the_inventory(phone, tmp_path):
    path, description = add("my-phone", phone.address, tmp_path / "devices")
    assert path == tmp_path / "devices" / "my-phone.yaml"
    assert "Virtual Phone" in description
    device = inventory.open_device("my-phone")
    try:
        assert device.identity()["model"] == "Virtual Phone"
    finally:
        device.close()


def test_a_name_that_is_taken_or_no_file_name_is_refused_before_connecting(tmp_path):
    (tmp_path / "old.yaml").write_text("driver: host\n")
    with pytest.raises(ConfigError, match=r"old\.yaml is there already"):
        add("old", "127.0.0.1:1", tmp_path)
    with pytest.raises(ConfigError, match="can't name a device"):
        add("../old", "127.0.0.1:1", tmp_path)


def test_a_phone_that_does_not_answer_leaves_no_file(tmp_path, phone):
    address = phone.address
    phone.stop()
    with pytest.raises(MissingError, match="gone"):
        add("gone", address, tmp_path / "devices")
    assert not (tmp_path / "devices").exists()
