"""`edgebench devices check`: every way in which a device can spoil a measurement, looked at one by one."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgebench.arrays import Array
from edgebench.codec import to_plain
from edgebench.converters import artifact_files
from edgebench.devices import inventory
from edgebench.devices.lease import lease
from edgebench.errors import EdgebenchError, StageError
from edgebench.measure import device_cautions, feed, session
from edgebench.measure.feed_files import FeedFolder
from edgebench.pipeline import check_adb
from edgebench.pipeline.finding import Finding, Level, from_error, judged, warned
from edgebench.types import Artifact, DeviceSpec, Origin, Precision, Target

if TYPE_CHECKING:
    from edgebench.devices.protocol import CommandResult, Device

_FOLDER = Path(__file__).parent / "check_models"
_MODELS = {
    "tflite-fp32.tflite": "litert",
    "tflite-int8.tflite": "litert",
    "onnx-fp32.onnx": "onnxruntime",
    "onnx-int8.onnx": "onnxruntime",
}
_WORK_FOLDER = re.compile(r"edgebench-[0-9a-f]{8}")
_LIMIT_S = 30.0
_RUN_LIMIT_S = 300.0
_TRANSFER_BYTES = 1 << 20
_MIN_TRANSFER_MB_S = 2.0
_MIN_FREE_BYTES = 500 << 20
_MIN_BATTERY = 0.3
_MAX_TEMPERATURE_C = 60.0
_MAX_LOAD_PER_CPU = 0.3
_MODERATE, _SEVERE = 2, 3  # Android's thermal status; from severe on, the system throttles what the user sees


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """All findings about a device; `origin` tells a simulated device from a real one, None where it did not answer."""

    device: str
    origin: Origin | None
    findings: tuple[Finding, ...]

    @property
    def level(self) -> Level:
        """The worst of the findings."""
        levels = {finding.level for finding in self.findings}
        return next((level for level in (Level.FAIL, Level.WARN) if level in levels), Level.OK)


def check(name: str, on_finding: Callable[[Finding], None], on_wait: Callable[[str], None]) -> Health:
    """Look at everything that applies to the device `name`; `on_finding` hears of each at once.

    Of a device that can't be reached there are only this machine's side and why.

    Raises:
        InputError: there is no such device, or its file is wrong.
    """
    spec = inventory.check(name)
    findings: list[Finding] = []

    def tell(finding: Finding) -> None:
        findings.append(finding)
        on_finding(finding)

    origin: Origin | None = None
    with lease(inventory.lease_name(name), on_wait):
        for finding in check_adb.looks(spec) if spec.driver in check_adb.DRIVERS else ():
            tell(finding)
        if spec.driver in check_adb.DRIVERS and (absent := check_adb.absent_server(spec)):
            tell(absent)
            return Health(device=name, origin=origin, findings=tuple(findings))
        try:
            device = inventory.open_device(name)
        except EdgebenchError as error:
            tell(from_error("connection", error, name))
            return Health(device=name, origin=origin, findings=tuple(findings))
        with closing(device):
            origin = device.origin
            tell(Finding(item="connection", level=Level.OK, value=device.spec.address or "this machine"))
            for item, look in _looks(spec):
                try:
                    tell(look(device))
                except EdgebenchError as error:
                    tell(from_error(item, error, name))
            try:
                for finding in _conditions(device):
                    tell(finding)
            except EdgebenchError as error:
                tell(from_error("conditions", error, name))
    return Health(device=name, origin=origin, findings=tuple(findings))


def _looks(spec: DeviceSpec) -> Iterator[tuple[str, Callable[[Device], Finding]]]:
    if spec.driver in check_adb.DRIVERS:
        yield "routes", check_adb.second_route
    yield "exit status", _exit_status
    yield "output", _output
    yield "file transfer", _transfer
    yield "clock", _clock
    yield "executable folder", _executable_folder
    yield "free space", _free_space
    yield "leftovers", _leftovers
    yield "tools", _tools
    yield "platform", _platform
    for file, runtime in _MODELS.items():
        yield _answers_item(file, runtime), partial(_answers, file=file, runtime=runtime)


def _exit_status(device: Device) -> Finding:
    status = _shell(device, "exit 7").exit_code
    right = "a program's status arrives (7)"
    return judged("exit status", status, 7, right=right, wrong="the device loses exit statuses")


def _output(device: Device) -> Finding:
    done = _shell(device, "echo out; echo err >&2")
    found = (done.stdout.strip(), done.stderr.strip())
    wrong = "the device mixes or loses what programs print"
    return judged("output", found, ("out", "err"), right="stdout and stderr arrive apart", wrong=wrong)


def _transfer(device: Device) -> Finding:
    sent = os.urandom(_TRANSFER_BYTES)
    with tempfile.TemporaryDirectory(prefix="edgebench-check-") as folder:
        there, back = Path(folder) / "sent", Path(folder) / "back"
        there.write_bytes(sent)
        started = time.monotonic()
        device.push(there, "transfer.bin")
        device.pull("transfer.bin", back)
        speed_mb_s = 2 * _TRANSFER_BYTES / 1e6 / (time.monotonic() - started)
        if back.read_bytes() != sent:
            raise StageError("1 MiB came back with another content; change the cable or the port")
    value = f"1 MiB there and back, {speed_mb_s:.3g} MB/s with its proofs"
    if speed_mb_s < _MIN_TRANSFER_MB_S:
        return Finding(
            item="file transfer", level=Level.WARN, value=value, fix="a slow link: use USB 3 or a wired network"
        )
    return Finding(item="file transfer", level=Level.OK, value=value)


def _clock(device: Device) -> Finding:
    """Two readings of the uptime, half a second apart."""
    times = _shell(device, "cut -d' ' -f1 /proc/uptime; sleep 0.5 2>/dev/null || sleep 1; cut -d' ' -f1 /proc/uptime")
    try:
        first, second = map(float, times.stdout.split())
    except ValueError:
        return Finding(
            item="clock", level=Level.WARN, value="/proc/uptime can't be read", fix="let its shell user read it"
        )
    if not 0.3 < second - first < 10:
        value = f"{second - first:.2f} s went by while it slept half a second"
        return Finding(
            item="clock", level=Level.FAIL, value=value, fix="its times can't be trusted: do not measure here"
        )
    return Finding(item="clock", level=Level.OK, value=f"up for {first:.0f} s, and running")


def _executable_folder(device: Device) -> Finding:
    script = 'printf "#!%s\\nexit 5\\n" "$(command -v sh)" > run.sh && chmod 755 run.sh && ./run.sh'
    fix = "name a `folder:` in its file that is not mounted noexec"
    right, wrong = "a program put there runs", "a program put there does not start"
    return judged("executable folder", _shell(device, script).exit_code, 5, right=right, wrong=wrong, fix=fix)


def _free_space(device: Device) -> Finding:
    columns = _shell(device, "df -Pk . | tail -n 1").stdout.split()
    if len(columns) < 4 or not columns[3].isdecimal():
        return Finding(item="free space", level=Level.WARN, value="df does not say", fix="look by hand: df")
    free_bytes = int(columns[3]) * 1024
    value = f"{free_bytes / 1e9:.3g} GB"
    if free_bytes < _MIN_FREE_BYTES:
        return Finding(item="free space", level=Level.WARN, value=value, fix="free 0.5 GB for models and samples")
    return Finding(item="free space", level=Level.OK, value=value)


def _leftovers(device: Device) -> Finding:
    """Work folders beside ours: of a session that was killed, or of another that works there now."""
    script = 'for f in ../edgebench-*; do [ "$(cd "$f" 2>/dev/null && pwd)" = "$PWD" ] || echo "$f"; done'
    found = [name for line in _shell(device, script).stdout.splitlines() if _WORK_FOLDER.fullmatch(name := line[3:])]
    fix = "remove them there, unless another edgebench uses the device now"
    return warned("leftovers", ", ".join(found) or "no work folder of an earlier session", bool(found), fix)


def _tools(device: Device) -> Finding:
    wanted = ("timeout", "taskset", "sha256sum")
    found = _shell(device, f"for t in {' '.join(wanted)}; do command -v $t >/dev/null && echo $t; done").stdout.split()
    missing = [tool for tool in wanted if tool not in found]
    if missing:
        value = f"without {', '.join(missing)}"
        return Finding(item="tools", level=Level.WARN, value=value, fix="install coreutils and util-linux there")
    return Finding(item="tools", level=Level.OK, value=", ".join(wanted))


def _platform(device: Device) -> Finding:
    facts = device.identity()
    told = [facts[key] for key in ("model", "soc", "cpu", "os", "abi") if key in facts]
    told += [f"{word} {facts[key]}" for key, word in (("sdk", "SDK"), ("page_size_bytes", "pages of")) if key in facts]
    return Finding(item="platform", level=Level.OK, value=", ".join(told) or "it does not say what it is")


def _answers(device: Device, file: str, runtime: str) -> Finding:
    """Run a small model there and here, and compare: this is what shows kernels that compute something else."""
    item = _answers_item(file, runtime)
    with tempfile.TemporaryDirectory(prefix="edgebench-check-") as folder:
        run = Path(folder)
        artifact = artifact_files.from_file(_FOLDER / file, run)
        with closing(inventory.open_device("host")) as host:
            here = _outputs(host, artifact, runtime, run)
        there = _outputs(device, artifact, runtime, run)
    is_fp32 = artifact.census.precision is Precision.FP32
    apart = max(float(np.abs(there[name] - here[name]).max()) for name in here)
    if apart == 0:
        return Finding(item=item, level=Level.OK, value="bit-equal to this machine's")
    value = f"up to {apart:.1e} from this machine's"
    if not device_cautions.against_host(there, here, artifact.outputs, is_fp32):
        fix = "its kernels round in another way: compare accuracy there, not only here"
        return warned(item, value, not is_fp32, fix)
    fix = "its kernels compute something else: try another runtime version, and do not ship before the cause is known"
    return Finding(item=item, level=Level.FAIL, value=value, fix=fix)


def _answers_item(file: str, runtime: str) -> str:
    return f"{runtime}, {Path(file).stem.partition('-')[2]}"


def _outputs(device: Device, artifact: Artifact, runtime: str, run: Path) -> dict[str, Array]:
    """Outputs to eight seeded samples, float32."""
    deployment = session.deploy(device, artifact, run, Target(device=device.spec.name, runtime=runtime))
    random = np.random.default_rng(0)
    samples = {
        binding.baseline: random.normal(size=(8, *(size or 1 for size in binding.tensor.shape[1:]))).astype(np.float32)
        for binding in artifact.inputs
    }
    feeds = FeedFolder(run / "feeds").files("check", samples, artifact.inputs)
    return feed.decode(session.run_outputs(deployment, feeds, _RUN_LIMIT_S), artifact.outputs)


def _conditions(device: Device) -> Iterator[Finding]:
    """What the device's state would do to a latency; what it does not tell is said as one finding."""
    now = device.conditions()
    unread = [name for name, value in to_plain(now).items() if value is None]
    if now.thermal_status is not None:
        level = (
            Level.OK if now.thermal_status < _MODERATE else Level.WARN if now.thermal_status < _SEVERE else Level.FAIL
        )
        fix = "" if level is Level.OK else "let it cool; it slows down its clocks now"
        yield Finding(item="thermal status", level=level, value=f"{now.thermal_status} of 6", fix=fix)
    if now.temperature_c is not None:
        is_hot = now.temperature_c > _MAX_TEMPERATURE_C
        fix = "let it cool, give it air, or wait for it with plan: cooldown" if is_hot else ""
        yield warned("temperature", f"{now.temperature_c:.1f} °C", is_hot, fix)
    if now.battery_fraction is not None:
        is_low = now.battery_fraction < _MIN_BATTERY and not now.is_charging
        charging = ", charging" if now.is_charging else ""
        yield warned("battery", f"{now.battery_fraction:.0%}{charging}", is_low, "charge it above 30 %")
    if now.is_low_power is not None:
        said = "on" if now.is_low_power else "off"
        yield warned("battery saver", said, now.is_low_power, "switch it off: it lowers the clocks")
    if now.is_screen_on is not None:
        said = "on" if now.is_screen_on else "off"
        yield warned("screen", said, not now.is_screen_on, "keep it on: with it off the system lowers the clocks")
    if now.governor is not None:
        is_slow = "powersave" in now.governor
        yield warned("governor", now.governor, is_slow, "choose another: powersave holds the lowest clock")
    if now.load_1min is not None:
        busy = now.load_1min / len(device.cpus())
        is_busy = busy > _MAX_LOAD_PER_CPU
        yield warned(
            "load", f"{now.load_1min:.2f} on {len(device.cpus())} CPUs", is_busy, "end what runs there, see: top"
        )
    if unread:
        yield Finding(item="unreadable", level=Level.OK, value=f"{', '.join(unread)}: not told by this device")


def _shell(device: Device, script: str) -> CommandResult:
    return device.run(("sh", "-c", script), _LIMIT_S)
