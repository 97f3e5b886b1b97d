"""What a remote Linux machine prints, read back: texts as real boards give them."""

from __future__ import annotations

import re
import subprocess

import pytest

from edgebench.devices import conditions, remote_linux, remote_report

CPU = "sys/devices/system/cpu"

PI = {
    "proc/loadavg": "0.21 0.30 0.25 1/180 2042\n",
    "proc/meminfo": "MemAvailable:    7654321 kB\n",
    "proc/cpuinfo": "",
    CPU: (
        "cpu0/cpufreq/scaling_cur_freq:1500000\ncpu1/cpufreq/scaling_cur_freq:2400000\n"
        "cpu0/cpufreq/scaling_governor:ondemand\ncpu1/cpufreq/scaling_governor:ondemand\n"
    ),
    "sys/class/thermal": "thermal_zone0/temp:48312\n",
    "sys/class/hwmon": (
        "hwmon0/name:cpu_thermal\nhwmon0/temp1_input:48312\nhwmon1/name:nvme\nhwmon1/temp1_input:71850\n"
    ),
    "sys/class/power_supply": "",
}

BIG_LITTLE = {
    "allowed": "Cpus_allowed_list:\t0-1,4-7\n",
    CPU: (
        "online:0-6\n"
        "cpu0/cpufreq/cpuinfo_max_freq:1704000\ncpu1/cpufreq/cpuinfo_max_freq:1704000\n"
        "cpu4/cpufreq/cpuinfo_max_freq:2367000\ncpu5/cpufreq/cpuinfo_max_freq:2367000\n"
        "cpu6/cpufreq/cpuinfo_max_freq:2914000\ncpu7/cpufreq/cpuinfo_max_freq:2914000\n"
    ),
}

PI_IDENTITY = {
    "cpuinfo": (
        "processor\t: 0\nFeatures\t: fp asimd aes asimdhp asimddp\n\nprocessor\t: 1\n"
        "Model\t\t: Raspberry Pi 5 Model B Rev 1.0\n"
    ),
    "release": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    "memory": "MemTotal:        8245248 kB\n",
    "allowed": "Cpus_allowed_list:\t0-1\n",
    "model": "Raspberry Pi 5 Model B Rev 1.0",
    "kernel": "6.6.20+rpt-rpi-2712\n",
    "abi": "aarch64\n",
    "page_size_bytes": "16384\n",
}


def test_the_conditions_of_a_board():
    found = remote_linux.read_conditions(PI)
    assert found.temperature_c == pytest.approx(48.312)
    assert found.cpu_clocks_mhz == (1500.0, 2400.0)
    assert found.governor == "ondemand"
    assert found.load_1min == 0.21
    assert found.free_memory_bytes == 7654321 * 1024
    assert (found.battery_fraction, found.is_charging) == (None, None)


@pytest.mark.parametrize("text", ["", "sh: grep: not found\n", ":::\n\0", "MemAvailable:\n"])
def test_what_is_unreadable_is_none(text):
    found = remote_linux.read_conditions(dict.fromkeys(PI, text))
    assert (found.temperature_c, found.load_1min, found.free_memory_bytes, found.cpu_clocks_mhz) == (None,) * 4
    assert remote_linux.read_cpus(dict.fromkeys(BIG_LITTLE, text)) == ()
    assert remote_linux.read_identity({}) == {}


def test_cpus_are_the_allowed_ones_that_run_fastest_first():
    assert remote_linux.read_cpus(BIG_LITTLE) == (6, 4, 5, 0, 1)


def test_a_capacity_stands_in_for_a_hidden_clock_and_second_threads_come_last():
    text = (
        "cpu0/cpu_capacity:300\ncpu1/cpu_capacity:1024\ncpu2/cpu_capacity:1024\n"
        "cpu1/topology/thread_siblings_list:1-2\ncpu2/topology/thread_siblings_list:1-2\n"
    )
    assert remote_linux.read_cpus({CPU: text, "allowed": "Cpus_allowed_list:\t0-2\n"}) == (1, 0, 2)


def test_what_a_board_is():
    assert remote_linux.read_identity(PI_IDENTITY) == {
        "model": "Raspberry Pi 5 Model B Rev 1.0",
        "cpu": "Raspberry Pi 5 Model B Rev 1.0",
        "cpus_allowed": "2",
        "cpus": "2",
        "cpu_flags": "asimddp asimdhp",
        "memory_bytes": str(8245248 * 1024),
        "os": "Debian GNU/Linux 12 (bookworm)",
        "abi": "aarch64",
        "kernel": "6.6.20+rpt-rpi-2712",
        "page_size_bytes": "16384",
    }


def test_a_device_can_not_write_outside_the_folder_of_its_state(tmp_path):
    wrong = {
        "sys/../../../../../..": f"{tmp_path}/x:1\n",
        "sys/a": f"../../../../../..{tmp_path}/x:1\n./b:1\n{'d/' * 3000}x:1\n",
        f"proc/../../../../..{tmp_path}/y": "1",
        "proc/meminfo/x": "1",
        "sys/class": "thermal:1\n",
    }
    assert remote_linux.read_conditions(wrong | PI).load_1min == 0.21
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "x", "0-99999999999", "1,a", "-1", "²"])
def test_a_cpu_list_that_is_none_harms_nobody(text):
    assert set(conditions.cpu_list(text)) <= {1}


HEADS = re.compile(r"echo '@@edgebench [^']*'")


def test_the_scripts_run_in_a_plain_shell_here():
    for script in (remote_linux.CONDITIONS_SCRIPT, remote_linux.CPUS_SCRIPT, remote_linux.IDENTITY_SCRIPT):
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
        assert done.stderr == ""
        assert set(remote_report.read(done.stdout)) == {line[18:-1] for line in HEADS.findall(script)}
