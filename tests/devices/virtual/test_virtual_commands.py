"""What commands see of the phone: its paths, properties, heat, CPUs and programs."""

from __future__ import annotations

import os
import shutil
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from adb_shell.auth.keygen import keygen
from virtual_clients import Client

from edgebench.devices.virtual import Faults, Profile, ThermalStep, VirtualPhone
from edgebench.devices.virtual.files import Jail

TMP = "/data/local/tmp"


def aarch64_program():
    """A static ELF file that writes "arm" and ends with status 7."""
    words = [0xD2800020, 0x100000E1, 0xD2800082, 0xD2800808, 0xD4000001, 0xD28000E0, 0xD2800BA8, 0xD4000001]
    code = struct.pack("<8I", *words) + b"arm\n"
    base, offset = 0x400000, 120
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 2, 183, 1, base + offset, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    size = offset + len(code)
    return head + struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000) + code


@pytest.fixture
def client(phone, connect):
    return connect(phone)


def push(client, tmp_path, name, content):
    (tmp_path / "given").write_bytes(content)
    client.device.push(str(tmp_path / "given"), f"{TMP}/{name}", st_mode=0o100755)


@pytest.mark.parametrize(
    ("command", "mapped"),
    [
        ("cat /data/local/tmp/x", "cat ROOT/data/local/tmp/x"),
        ("L=/data/a:/data/b ls '/sdcard' \"/system\"", "L=ROOT/data/a:ROOT/data/b ls 'ROOT/sdcard' \"ROOT/system\""),
        ("cat</proc/cpuinfo>/data/x;ls /sys/class/thermal/*", None),
        ("ls /database ./data a/data /proc/self $D/data /usr", "ls /database ./data a/data /proc/self $D/data /usr"),
    ],
)
def test_phone_paths_in_a_command_are_mapped_where_a_word_begins(tmp_path, command, mapped):
    jail = Jail(tmp_path)
    if mapped is None:
        mapped = "cat<ROOT/proc/cpuinfo>ROOT/data/x;ls ROOT/sys/class/thermal/*"
    assert jail.map_command(command) == mapped.replace("ROOT", str(jail.root))


def test_a_root_that_a_shell_could_read_as_its_own_is_refused(tmp_path):
    with pytest.raises(Exception, match=r"must have letters, digits and \._/@\+- only; choose another$"):
        Jail(tmp_path / "a b;c")


def test_commands_get_nothing_of_the_users_environment(client, monkeypatch):
    monkeypatch.setenv("SECRET", "told")
    assert "SECRET" not in client.shell("env")[1]


def test_properties_tell_the_profile_and_ro_ones_stay(client):
    assert client.shell("getprop ro.product.model")[1] == "Virtual Phone\n"
    assert client.shell("getprop ro.build.version.sdk")[1] == "34\n"
    assert client.shell("getprop no.such")[1] == "\n"
    assert "[ro.product.cpu.abilist]: [arm64-v8a,armeabi-v7a,armeabi]\n" in client.shell("getprop")[1]
    assert client.shell("setprop debug.x 'a b' && getprop debug.x")[:2] == (0, "a b\n")
    assert client.shell("setprop ro.product.model x")[0] == 1
    assert client.shell("getprop ../../x")[1] == "\n"
    assert client.shell("getconf PAGESIZE; nproc; uname -m; id -u")[1].split() == ["4096", "8", "aarch64", "2000"]


def test_a_phone_says_that_it_is_simulated_unless_it_was_told_that_it_emulates(client):
    assert client.shell("getprop ro.edgebench.origin")[1] == "simulated\n"


def test_an_aarch64_program_runs_through_timeout_and_taskset(client, tmp_path):
    push(client, tmp_path, "arm", aarch64_program())
    for command in (
        f"timeout 10 {TMP}/arm",
        f"cd {TMP} && timeout -s KILL 10 ./arm",
        f"timeout 10 taskset c0 {TMP}/arm",
    ):
        done = client.shell(command)
        if shutil.which("qemu-aarch64-static"):
            assert done == (7, "arm\n", ""), command
        else:
            assert (done[0], done[1]) == (126, "")
            assert "exec format error" in done[2]


def test_without_qemu_an_aarch64_program_is_an_exec_format_error(phone, connect, tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "od", "tr", "timeout"):
        (folder / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(folder))
    with VirtualPhone(Profile(), tmp_path / "plain", accepts_any_key=True) as plain:
        client = connect_any(plain, tmp_path)
        push(client, tmp_path, "arm", aarch64_program())
        assert client.shell(f"timeout 10 {TMP}/arm") == (
            126,
            "",
            f"timeout: {plain.root}{TMP}/arm: exec format error\n",
        )
        client.close()


def connect_any(phone, tmp_path):
    keygen(str(tmp_path / "new-key"))
    return Client(phone.address, tmp_path / "new-key")


def test_a_script_with_the_phones_interpreter_runs_through_timeout(client, tmp_path):
    push(client, tmp_path, "probe.sh", b"#!/system/bin/sh\necho ran $1\nexit 3\n")
    assert client.shell(f"timeout 10 {TMP}/probe.sh here") == (3, "ran here\n", "")


def test_a_signal_is_a_status_of_128_and_its_number(client):
    assert client.shell("kill -9 $$")[0] == 137


def test_timeout_ends_what_takes_too_long(client):
    assert client.shell("timeout 0.1 sleep 60")[0] == 124
    assert client.shell("timeout 5")[0] == 125


@pytest.mark.parametrize(("mask", "status"), [("f0", 0), ("80", 0), ("0xf0", 1), ("100", 1), ("zz", 1)])
def test_taskset_takes_a_hex_mask_of_cpus_that_the_phone_has(client, mask, status):
    assert client.shell(f"taskset {mask} echo ran")[:2] == (status, "" if status else "ran\n")


def test_taskset_pins_to_a_cpu_that_both_the_phone_and_this_machine_have(client):
    cpu = min(os.sched_getaffinity(0))
    listed = client.shell(f"taskset {1 << cpu:x} grep Cpus_allowed_list /proc/self/status")[1]
    assert listed.split()[1] == str(cpu)


def test_clusters_governor_and_zones_are_in_sysfs(client):
    command = "cat /sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq"
    assert [int(word) for word in client.shell(command)[1].split()] == list(Profile().cpu_max_khz)
    assert client.shell("cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")[1] == "schedutil\n"
    assert (
        client.shell("cat /sys/class/thermal/thermal_zone0/type /sys/class/thermal/thermal_zone0/temp")[1]
        == "cpu\n30000\n"
    )
    assert client.shell("grep -c ^processor /proc/cpuinfo")[1] == "8\n"


def test_battery_power_and_settings_are_told_and_changed(client):
    battery = client.shell("dumpsys battery")[1]
    assert "  level: 80\n" in battery
    assert "  temperature: 280\n" in battery
    assert client.shell("settings get global low_power")[1] == "0\n"
    assert client.shell("settings get global nothing")[1] == "null\n"
    client.shell("settings put global low_power 1; svc power stayon true; input keyevent KEYCODE_SLEEP")
    client.shell("cmd power set-fixed-performance-mode-enabled true")
    power = client.shell("dumpsys power")[1]
    for line in (
        "mWakefulness=Asleep",
        "mStayOn=true",
        "mBatterySaverEnabled=true",
        "mFixedPerformanceModeEnabled=true",
    ):
        assert f"  {line}\n" in power
    assert client.shell("dumpsys nonsense")[0] == 1


def test_the_thermal_script_follows_the_commands(tmp_path, key, connect):
    steps = (ThermalStep(at_commands=2, status=3, temperature_c=45.5),)
    with VirtualPhone(Profile(thermal=steps), tmp_path / "warm", authorized_keys=[key.with_suffix(".pub")]) as phone:
        client = connect(phone)
        assert "Thermal Status: 0\n" in client.shell("dumpsys thermalservice")[1]
        hot = client.shell("dumpsys thermalservice")[1]
        assert "Thermal Status: 3\n" in hot
        assert "Temperature{mValue=45.5, mType=0, mName=CPU, mStatus=3}" in hot.partition("from HAL")[2]
        clock = client.shell("cat /sys/devices/system/cpu/cpu7/cpufreq/scaling_cur_freq")[1]
        assert int(clock) < Profile().cpu_max_khz[7]


def test_the_phone_warms_up_while_one_command_runs(phone, client):
    phone.inject(Faults(thermal_rise=ThermalStep(at_s=0.3, status=4, temperature_c=50)))
    loop = "until dumpsys thermalservice | grep -q 'Status: 4'; do sleep 0.05; done; echo hot"
    started = time.monotonic()
    assert client.shell(
        f"dumpsys thermalservice | grep 'Thermal Status'; timeout 10 sh -c '{loop.replace(chr(39), chr(34))}'"
    ) == (
        0,
        "Thermal Status: 0\nhot\n",
        "",
    )
    assert time.monotonic() - started > 0.2


def test_df_tells_what_is_left_after_a_push(phone, client, tmp_path):
    def free():
        return int(client.shell("df -k /data/local/tmp")[1].splitlines()[1].split()[3])

    before = free()
    push(client, tmp_path, "some", bytes(1024 * 1024))
    assert before - free() == 1024
    client.shell(f"rm {TMP}/some")
    assert free() == before


def test_many_commands_at_once_do_not_disturb_each_other(phone, connect):
    clients = [connect(phone) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        done = list(
            pool.map(lambda client: [client.shell("df /data >/dev/null; exit 3")[0] for _ in range(5)], clients)
        )
    assert done == [[3] * 5] * 8
