"""A whole arm64 virtual machine, booted and measured on; opt-in, as it takes minutes and a qemu-system-aarch64."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BOOT = Path(__file__).parents[2] / "benchmarks" / "arm64_vm" / "boot.py"

pytestmark = pytest.mark.skipif(
    not os.environ.get("EDGEBENCH_ARM64_VM"), reason="opt-in: EDGEBENCH_ARM64_VM=1 (boots a virtual machine, minutes)"
)


def test_a_phone_in_an_arm64_machine_passes_its_check_and_is_measured():
    done = subprocess.run([sys.executable, BOOT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nfail " not in done.stdout
    for runtime in ("litert", "onnxruntime"):
        assert any(
            line.split()[:3] == ["ok", f"{runtime},", "int8"] and line.endswith("bit-equal to this machine's")
            for line in done.stdout.splitlines()
        )
    assert done.stdout.count("full-int8") == 2
