"""The virtual phone: an Android device's side of ADB over loopback TCP, with a profile and faults on demand.

It speaks to any ADB client (the `adb` command, adb-shell, adbutils). What it is not:

- No sandbox. Sync requests stay inside the phone's root; shell commands run on this machine with the rights of the user
  who started the phone. Therefore it listens on 127.0.0.1 only and asks for an RSA key that it knows.
- No Android. Commands get this machine's /bin/sh and tools, behind shims for what a benchmark asks a phone (`shims/`).
  Phone paths are mapped by the text of the command (`files.Jail.map_command`): scripts that are pushed should use
  relative paths, and a `#!/system/bin/sh` is found only through `timeout` or `taskset`. Paths in outputs are this
  machine's. There is no terminal: an interactive shell has no prompt and no echo.
- No ARM. A program for aarch64 runs through `timeout` or `taskset` if qemu-aarch64-static is on PATH (the property
  `ro.edgebench.origin` is then `emulated`, else `simulated`); programs that it starts itself are not emulated. No time
  measured on it means anything for a phone.
"""

from edgebench.devices.virtual.faults import Faults
from edgebench.devices.virtual.phone import VirtualPhone
from edgebench.devices.virtual.profile import Age, Battery, Profile, ThermalStep

__all__ = ["Age", "Battery", "Faults", "Profile", "ThermalStep", "VirtualPhone"]
