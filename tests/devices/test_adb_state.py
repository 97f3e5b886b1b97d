"""What an Android device prints, read back: texts in the form of real phones."""

from __future__ import annotations

import pytest

from edgebench.devices import android_state, remote_report
from edgebench.devices.shell_marker import MarkedCommand
from edgebench.errors import StageError

THERMAL = """\
IsStatusOverride: false
ThermalEventListeners:
\tcallbacks: 2
Thermal Status: 2
Cached temperatures:
\tTemperature{mValue=99.0, mType=0, mName=CPU0, mStatus=0}
HAL Ready: true
Current temperatures from HAL:
\tTemperature{mValue=41.25, mType=0, mName=CPU0, mStatus=0}
\tTemperature{mValue=43.5, mType=0, mName=CPU4, mStatus=0}
\tTemperature{mValue=36.0, mType=3, mName=skin, mStatus=1}
\tTemperature{mValue=-274.0, mType=0, mName=CPU7, mStatus=0}
\tTemperature{mValue=NaN, mType=0, mName=CPU6, mStatus=0}
Current cooling devices from HAL:
\tCoolingDevice{mValue=0, mType=2, mName=thermal-cpufreq-0}
"""

BATTERY = """\
Current Battery Service state:
  AC powered: false
  USB powered: true
  Wireless powered: false
  Max charging current: 500000
  status: 2
  health: 2
  present: true
  level: 87
  scale: 100
  voltage: 4251
  temperature: 285
  technology: Li-ion
"""

ALL = {
    "thermal": THERMAL,
    "battery": BATTERY,
    "power": "  mWakefulness=Asleep\n",
    "low_power": "1\n",
    "proc/loadavg": "3.10 2.00 1.00 1/900 123\n",
}


def test_the_conditions_of_a_phone():
    now = android_state.read_conditions(ALL)
    assert (now.temperature_c, now.thermal_status) == (43.5, 2)
    assert (now.battery_fraction, now.is_charging) == (0.87, True)
    assert (now.is_screen_on, now.is_low_power, now.load_1min) == (False, True, 3.1)


@pytest.mark.parametrize(
    ("change", "temperature_c"),
    [
        ({"thermal": THERMAL.replace("mType=0", "mType=9")}, 36.0),
        ({"thermal": ""}, 28.5),
        ({"thermal": "", "sys/class/thermal": "thermal_zone0/temp:52000"}, 52.0),
        ({"thermal": "", "battery": ""}, None),
    ],
    ids=["skin", "battery", "sysfs", "nothing"],
)
def test_the_temperature_is_the_best_that_can_be_read(change, temperature_c):
    assert android_state.read_conditions(ALL | change).temperature_c == temperature_c


@pytest.mark.parametrize("text", ["", "Can't find service: battery\n", "  level: \n  scale: 0\n", "\0"])
def test_what_is_unreadable_is_none(text):
    now = android_state.read_conditions(dict.fromkeys(ALL, text))
    assert (now.temperature_c, now.thermal_status, now.battery_fraction, now.is_charging) == (None,) * 4
    assert (now.is_screen_on, now.is_low_power) == (None, None)


def test_a_level_without_a_scale_is_no_fraction():
    assert android_state.read_conditions({"battery": "  level: 87\n  scale: 0\n"}).battery_fraction is None


def test_what_a_phone_is():
    properties = (
        "[ro.product.model]: [Pixel 8]\n[ro.product.manufacturer]: [Google]\n[ro.soc.model]: [Tensor G3]\n"
        "[ro.build.version.sdk]: [35]\n[ro.build.version.release]: [15]\n[ro.product.cpu.abi]: [arm64-v8a]\n"
        "[ro.board.platform]: [zuma]\n[ro.other]: [a]: [b]\n"
    )
    found = android_state.read_identity({"properties": properties, "abi": "aarch64\n", "kernel": "6.1\n"})
    assert found == {
        "model": "Pixel 8",
        "manufacturer": "Google",
        "soc": "Tensor G3",
        "cpu": "Tensor G3",
        "sdk": "35",
        "os": "Android 15",
        "abi": "arm64-v8a",
        "kernel": "6.1",
    }
    assert android_state.read_identity({}) == {}


def test_a_script_of_an_old_device_fits_its_smallest_packet():
    for script in (android_state.CONDITIONS_SCRIPT, android_state.IDENTITY_SCRIPT):
        assert len(script) < 3000  # of 4096 bytes, with what is put around it


def test_sections_are_read_back():
    assert remote_report.read("noise\n@@edgebench a\n1\n2\n@@edgebench b\n") == {"a": "1\n2\n", "b": ""}


def marked(text):
    command = MarkedCommand("true")
    marker = command.line.rpartition("echo ")[2].partition("-end")[0]
    return command, text.replace("M", marker).encode()


def test_a_terminal_of_an_old_device_is_undone():
    command, output = marked("a\r\nb\r\nM-err\r\noops\r\nM-end:3\r\n")
    done = command.result(output)
    assert (done.exit_code, done.stdout, done.stderr) == (3, b"a\nb\n", b"oops\n")


@pytest.mark.parametrize("text", ["", "a\n", "M-err\n", "M-err\nM-end:", "M-err\nM-end:0", "a\nM-end:0\n"])
def test_an_answer_that_was_cut_is_no_result(text):
    command, output = marked(text)
    with pytest.raises(StageError, match="cut before its end"):
        command.result(output)
