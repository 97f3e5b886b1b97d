"""Conditions read from canned /proc and /sys trees."""

from __future__ import annotations

import pytest

from edgebench.devices import conditions

CPU = "sys/devices/system/cpu"
PHONE = {
    f"{CPU}/cpu0/cpufreq/scaling_cur_freq": "1800000\n",
    f"{CPU}/cpu0/cpufreq/scaling_governor": "schedutil\n",
    f"{CPU}/cpu0/cpufreq/cpuinfo_max_freq": "1800000\n",
    f"{CPU}/cpu10/cpufreq/scaling_cur_freq": "2800000\n",
    f"{CPU}/cpu10/cpufreq/scaling_governor": "performance\n",
    f"{CPU}/cpu10/cpufreq/cpuinfo_max_freq": "2850000\n",
    f"{CPU}/cpu2/cpufreq/scaling_cur_freq": "900000\n",
    f"{CPU}/cpu2/cpu_capacity": "446\n",
    f"{CPU}/cpu2/topology/thread_siblings_list": "2,6-7\n",
    "sys/class/thermal/thermal_zone0/temp": "41500\n",
    "sys/class/thermal/thermal_zone1/temp": "-274000\n",
    "sys/class/thermal/thermal_zone2/temp": "47250\n",
    "sys/class/power_supply/mouse/type": "Battery\n",
    "sys/class/power_supply/mouse/scope": "Device\n",
    "sys/class/power_supply/mouse/capacity": "3\n",
    "sys/class/power_supply/z/type": "Battery\n",
    "sys/class/power_supply/z/capacity": "76\n",
    "sys/class/power_supply/z/status": "Discharging\n",
    "proc/loadavg": "0.52 0.58 0.59 1/467 12345\n",
    "proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable:   8000000 kB\n",
}


def tree(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_everything_that_a_phone_like_tree_says_is_read(tmp_path):
    now = conditions.read(tree(tmp_path, PHONE))
    assert now.cpu_clocks_mhz == (1800.0, 900.0, 2800.0)
    assert now.governor == "performance+schedutil"
    assert now.temperature_c == 47.25
    assert (now.battery_fraction, now.is_charging) == (0.76, False)
    assert now.load_1min == 0.52
    assert now.free_memory_bytes == 8_192_000_000


def test_a_sensor_in_the_processor_counts_more_than_a_disk_or_a_zone(tmp_path):
    sensors = {
        "sys/class/hwmon/hwmon0/name": "nvme\n",
        "sys/class/hwmon/hwmon0/temp1_input": "70000\n",
        "sys/class/hwmon/hwmon1/name": "k10temp\n",
        "sys/class/hwmon/hwmon1/temp1_input": "51000\n",
    }
    assert conditions.read(tree(tmp_path, PHONE | sensors)).temperature_c == 51.0


def test_clocks_come_from_cpuinfo_where_there_is_no_cpufreq(tmp_path):
    now = conditions.read(tree(tmp_path, {"proc/cpuinfo": "cpu MHz\t\t: 2100.5\nx\ncpu MHz\t\t: 3000.0\n"}))
    assert now.cpu_clocks_mhz == (2100.5, 3000.0)


@pytest.mark.parametrize("text", ["", "garbage", "\x00\xff"])
def test_what_can_not_be_read_is_none_and_never_a_crash(tmp_path, text):
    now = conditions.read(tree(tmp_path, dict.fromkeys(PHONE, text)))
    for value in (now.cpu_clocks_mhz, now.temperature_c, now.battery_fraction, now.load_1min, now.free_memory_bytes):
        assert value is None
    assert conditions.read(tmp_path / "nothing").governor is None


def test_clocks_and_core_mates_order_the_cpus(tmp_path):
    root = tree(tmp_path, PHONE)
    assert conditions.max_clocks(root, (0, 2, 3, 10)) == {0: 1_800_000, 2: 446, 3: 0, 10: 2_850_000}
    assert conditions.core_mates(root, 2) == (2, 6, 7)
    assert conditions.core_mates(root, 3) == (3,)
