"""The native runner under gcc's address and undefined-behaviour checks, fed with jobs and arrays that are garbage."""

from __future__ import annotations

import hashlib
import json
import platform
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kit_jobs import FILES, images, int8_onnx, job_for, start

from edgebench.devices.kit.build import RUNNER_SOURCES

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or shutil.which("gcc") is None,
    reason="needs gcc and the x86-64 onnxruntime",
)


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """Runs a job with a runner that ends with another status than 0 and 1 when it touches what it must not."""
    import onnxruntime

    folder = tmp_path_factory.mktemp("checked")
    argv = ["gcc", "-std=gnu17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"]
    argv += ["-fno-sanitize-recover=all", *map(str, RUNNER_SOURCES.glob("*.c")), "-ldl", "-o", str(folder / "runner")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0 and "asan" in done.stderr:
        pytest.skip("this gcc has no sanitizers")
    assert done.returncode == 0, done.stderr
    library = next((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"))
    (folder / "libonnxruntime.so.1").symlink_to(library)
    # The process frees nothing, because it ends: leaks are not what is looked for.
    settings = {"ASAN_OPTIONS": "detect_leaks=0:exitcode=99", "UBSAN_OPTIONS": "exitcode=99"}
    settings["LD_LIBRARY_PATH"] = str(folder)
    return lambda where, job: start([folder / "runner"], where, job, settings)


def refused(done):
    assert done.status == 1, done.stderr[-2000:]
    assert list(done.result) == ["error"]
    assert done.result["error"]
    assert "\n" not in done.result["error"]
    return done.result["error"]


@pytest.mark.parametrize("kind", ["float32", "int8"])
@pytest.mark.parametrize("outputs", [(), ("scores",)])
def test_good_jobs_touch_nothing_that_they_must_not(tmp_path, checked, kind, outputs):
    model = FILES / "tiny.onnx" if kind == "float32" else int8_onnx(tmp_path / "int8.onnx")
    job = job_for(tmp_path, model, {"image": images(5, kind, "NCHW")}, outputs=outputs, batch=2)
    assert checked(tmp_path, job).status == 0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", "it breaks off at byte 0"),
        (b"{", "no string where one belongs"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"mode": "late', "a string without an end"),
        (b'{"mode": "\\u12', "a string without an end"),
        (b'{"mode": "\\u12"}', "without four hexadecimal digits"),
        (b'{"mode": "\\ud800"}', "half a surrogate pair"),
        (b'{"mode": "\\u0000"}', "a NUL"),
        (b'{"mode": "\\', "a string without an end"),
        (b'{"mode" 1}', "no ':' after a name"),
        (b'{"mode": 1', "no '}' or ','"),
        (b'{"mode": 99999999999999999999}', "no number of 64 bits"),
        (b'{"mode": ' + b"1" * 500 + b"}", "a number that is too long"),
        (b'{"mode": NaN}', "no number of 64 bits"),
        (b"{} {}", "something after its end"),
        (b"\x00\xff\xfe", "no number of 64 bits"),
        (b"[]", "the job is not a JSON object"),
        (b"{}", "the job's 'mode' must be a string, and is not there"),
    ],
)
def test_a_job_that_is_not_json_is_one_line(tmp_path, checked, text, error):
    assert error in refused(checked(tmp_path, text))


def test_a_job_that_is_not_there_or_too_large_is_one_line(tmp_path, checked):
    assert "16 MiB" in refused(checked(tmp_path, b" " * ((16 << 20) + 1)))
    (tmp_path / "job.json").unlink()
    (tmp_path / "job.json").mkdir()
    assert "can't be read: Is a directory" in refused(checked(tmp_path, None))


def test_mutated_jobs_never_crash_it(tmp_path, checked):
    chance = random.Random(0)
    job = job_for(tmp_path, FILES / "tiny.onnx", {"image": images(2, layout="NCHW")}, outputs=["scores"])
    good = json.dumps(job).encode()
    for _ in range(150):
        text = bytearray(good)
        for _ in range(chance.randint(1, 6)):
            place = chance.randrange(len(text))
            what = chance.randrange(3)
            if what == 0:
                text[place] = chance.randrange(256)
            elif what == 1:
                del text[place : place + chance.randint(1, 20)]
            else:
                text[place:place] = bytes(chance.choices(b'{}[]",:\\u0-9e', k=chance.randint(1, 8)))
        assert checked(tmp_path, bytes(text)).status in (0, 1)


def npy(header: bytes, data: bytes = b"", version: int = 1) -> bytes:
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "is not a .npy file"),
        (b"\x93NUMPY", "is not a .npy file"),
        (b"\x93NUMPY\x01\x00\xff\xff" + b" " * 20, "with a whole header"),
        (b"\x93NUMPY\x09\x00\x05\x00" + b" " * 20, "of version 1 to 3"),
        (npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 8, 8), }"), "is shorter than its header says"),
        (npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9), }"), "does not fit"),
        (npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }"), "of a shape"),
        (npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }"), "of a shape"),
        (npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"1," * 99 + b"), }"), "of a shape"),
        (npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2"), "of a shape"),
        (npy(b"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", b"1234"), "no little-endian numbers"),
        (npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"1" * 8), "no little-endian numbers"),
        (npy(b"{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", b"1234"), "is not in C order"),
        (npy(b"{'descr"), "no little-endian numbers"),
        (npy(b"{'descr': '", version=2), "no little-endian numbers"),
    ],
)
def test_an_array_that_is_not_one_is_one_line(tmp_path, checked, content, error):
    job = job_for(tmp_path, FILES / "tiny.onnx", {"image": images(2, layout="NCHW")})
    (tmp_path / "in0.npy").write_bytes(content)
    assert error in refused(checked(tmp_path, job))


def test_mutated_headers_of_arrays_never_crash_it(tmp_path, checked):
    chance = random.Random(1)
    job = job_for(tmp_path, FILES / "tiny.onnx", {"image": images(2, layout="NCHW")}, outputs=["scores"])
    good = (tmp_path / "in0.npy").read_bytes()
    for _ in range(100):
        content = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            content[chance.randrange(6, 90)] = chance.choice(b"0123456789,()'{}<>| \x00\xff")
        (tmp_path / "in0.npy").write_bytes(content)
        assert checked(tmp_path, job).status in (0, 1)


def test_a_model_that_is_garbage_is_one_line(tmp_path, checked):
    (tmp_path / "model.onnx").write_bytes(random.Random(2).randbytes(5000))
    job = job_for(tmp_path, tmp_path / "model.onnx", {"image": images(1, layout="NCHW")})
    assert "onnxruntime: loading the model" in refused(checked(tmp_path, job))


@pytest.mark.parametrize("size", [0, 1, 55, 56, 63, 64, 119, 120, 65535, 65536, 65537, 200_000])
def test_its_sha256_is_that_of_hashlib(tmp_path, checked, size):
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8).tobytes()
    path = tmp_path / "in0.npy"
    job = job_for(tmp_path, FILES / "tiny.onnx", {"image": images(1, layout="NCHW")})
    path.write_bytes(path.read_bytes() + data)  # what stands behind the values is not read, but hashed
    expected = hashlib.sha256(path.read_bytes()).hexdigest()
    assert checked(tmp_path, job).result["input_sha256"] == {"image": expected}
