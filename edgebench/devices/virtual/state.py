"""What a virtual phone is like now: its faults, its heat, and the files through which shims and clients see them."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import threading
import time
from pathlib import Path

from edgebench.devices.virtual import system_files
from edgebench.devices.virtual.faults import Faults
from edgebench.devices.virtual.files import Jail, Space
from edgebench.devices.virtual.profile import NORMAL_TEMPERATURE_C, Profile, ThermalStep
from edgebench.types import Origin

_SHIMS = Path(__file__).parent / "shims"
_COOL = ThermalStep(status=0, temperature_c=NORMAL_TEMPERATURE_C)
_HIDING = "hiding"  # in the folder of the state
_MARK = "EDGEBENCH_VIRTUAL_PHONE"  # in every process that this phone started, whatever session it moved to


class PhoneState:
    """Shared by all connections; every method may be called from any thread."""

    def __init__(self, profile: Profile, root: Path, faults: Faults, origin: Origin) -> None:
        self.profile = profile
        self.faults = Faults()
        self.jail = Jail(root)
        self.space = Space(self.jail, profile.free_bytes)
        self.mark = f"{_MARK}={secrets.token_hex(16)}"
        self._qemu = shutil.which("qemu-aarch64-static")
        self._lock = threading.Lock()
        self._began = self._fault_began = time.monotonic()
        self._commands = self._fault_commands = 0
        self._drops_left = 0
        self._shown: ThermalStep | None = None
        # Beside the root, not in it: a phone has no such folder.
        self._folder = Path(tempfile.mkdtemp(prefix="edgebench-phone-"))
        self._install_shims()
        self._hide_caches()
        system_files.write_settings(self._folder, profile, origin)
        self.inject(faults)

    def inject(self, faults: Faults) -> None:
        """Make `faults` the ones that are on."""
        with self._lock:
            if faults.disk_full_after_bytes != self.faults.disk_full_after_bytes:
                self.space.leave(faults.disk_full_after_bytes)
            self.faults = faults
            self._fault_began, self._fault_commands = time.monotonic(), self._commands
            self._drops_left = faults.drops if faults.drop_push_after_bytes is not None else 0
        if faults.is_exec_denied:
            for path, found in self.jail.stored_files():
                path.chmod(found.st_mode & 0o666)
        for name in ("is_exec_denied", "is_timeout_ignored"):
            flag = self._folder / name
            flag.touch() if getattr(faults, name) else flag.unlink(missing_ok=True)
        self.refresh()

    def on_command(self) -> None:
        """A shell command starts."""
        with self._lock:
            self._commands += 1
        self.refresh()
        with self._lock:
            self.space.count_again()
            system_files.write_free(self._folder, self.space.free_bytes())
            self.space.count_again()  # once more when it has changed files

    def refresh(self) -> None:
        """Bring the files that tell the phone's heat up to date."""
        with self._lock:
            thermal = self._thermal()
            if thermal != self._shown:
                self._shown = thermal
                system_files.write_state(self.jail.root, self._folder, self.profile, thermal)

    def next_change_s(self) -> float | None:
        """Seconds until time alone makes the phone warmer or cooler; None when it never does."""
        with self._lock:
            now = time.monotonic()
            waits = [step.at_s - (now - self._began) for step in self.profile.thermal]
            if self.faults.thermal_rise is not None:
                waits.append(self.faults.thermal_rise.at_s - (now - self._fault_began))
        return min((wait for wait in waits if wait > 0), default=None)

    def is_push_dropped(self, received_bytes: int) -> bool:
        """Whether the connection is to be cut now that a push has got so far; counts the cut."""
        limit = self.faults.drop_push_after_bytes
        if limit is None or received_bytes < limit:
            return False
        with self._lock:
            if self._drops_left == 0:
                return False
            self._drops_left -= 1
            return True

    def environment(self) -> dict[str, str]:
        """Of a shell command: nothing of the user's own but PATH, behind the phone's tools."""
        host_path = os.environ.get("PATH", os.defpath)
        name, _, value = self.mark.partition("=")
        return {
            "PATH": f"{self.jail.root / 'system/bin'}:{host_path}",
            "HOME": str(self.jail.root / "data/local/tmp"),
            "TMPDIR": str(self.jail.root / "data/local/tmp"),
            "ANDROID_DATA": str(self.jail.root / "data"),
            "ANDROID_ROOT": str(self.jail.root / "system"),
            "LANG": "C.UTF-8",
            "QEMU_CPU": "neoverse-n1",  # under `max`, int8 kernels of LiteRT were wrong without a word
            "PHONE_HOST_PATH": host_path,
            "PHONE_STATE": str(self._folder),
            "PHONE_QEMU": f"{self._qemu} -L {self._folder / _HIDING}" if self._qemu else "",
            name: value,
        }

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _thermal(self) -> ThermalStep:
        now = time.monotonic()
        current = _COOL
        for step in sorted(self.profile.thermal, key=lambda step: (step.at_s, step.at_commands)):
            if now - self._began >= step.at_s and self._commands >= step.at_commands:
                current = step
        rise = self.faults.thermal_rise
        if rise is not None and now - self._fault_began >= rise.at_s:
            current = rise if self._commands - self._fault_commands >= rise.at_commands else current
        return current

    def _hide_caches(self) -> None:
        """Empty files for qemu to show instead of this machine's caches, which crash onnxruntime: an ARM kernel
        describes its caches in another way."""
        for path in Path("/sys/devices/system/cpu").glob("cpu*/cache/*/*"):
            if path.is_file():
                hidden = self._folder / _HIDING / path.relative_to("/")
                hidden.parent.mkdir(parents=True, exist_ok=True)
                hidden.touch()

    def _install_shims(self) -> None:
        for shim in _SHIMS.iterdir():
            target = self.jail.root / "system/bin" / shim.name
            shutil.copyfile(shim, target)
            target.chmod(0o755)
