from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgebench.devices.kit import build, fetch, manifest
from edgebench.devices.kit.manifest import KitFile, Manifest
from edgebench.devices.kit.sources import LITERT, PACKAGES, WHEELS
from edgebench.errors import InputError, MissingError, StageError


def small_kit(folder: Path) -> Manifest:
    """A kit of one file, described as `build` describes it."""
    (folder / "lib").mkdir()
    (folder / "lib" / "libx.so").write_bytes(b"library")
    file = KitFile(
        path="lib/libx.so",
        sha256=hashlib.sha256(b"library").hexdigest(),
        size_bytes=7,
        package="p",
        source="https://example.org/x",
        source_sha256="0" * 64,
        license="MIT",
    )
    made = Manifest(kit="1", target="aarch64", compiler="zig 1", runtimes={"litert": "2"}, files=(file,))
    manifest.write(made, folder)
    return made


def deb(name: bytes, data: bytes) -> bytes:
    def member(title: bytes, content: bytes) -> bytes:
        head = (
            title.ljust(16)
            + b"0".ljust(12)
            + b"0".ljust(6) * 2
            + b"100644".ljust(8)
            + str(len(content)).encode().ljust(10)
        )
        return head + b"`\n" + content + b"\n" * (len(content) % 2)

    return b"!<arch>\n" + member(b"debian-binary", b"2.0\n") + member(b"control.tar.xz", b"odd") + member(name, data)


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    made = small_kit(tmp_path)
    assert manifest.read(tmp_path) == made
    assert made.size_bytes == 7


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": [{"path": 1}]}', '{"files": []}'])
def test_a_folder_without_a_whole_manifest_is_no_kit(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="is not the manifest of a kit"):
        manifest.read(tmp_path)
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InputError, match="is not the manifest of a kit"):
        manifest.read(tmp_path)


def test_files_are_pushed_only_while_they_are_what_the_manifest_says(tmp_path: Path) -> None:
    small_kit(tmp_path)
    assert build.files(tmp_path) == {"lib/libx.so": tmp_path / "lib" / "libx.so"}
    (tmp_path / "lib" / "libx.so").write_bytes(b"other")
    with pytest.raises(StageError, match=r"libx\.so is not what its manifest says"):
        build.files(tmp_path)


def test_the_command_starts_the_loader_from_the_folder_of_the_kit() -> None:
    assert build.command("job/kit") == (
        "job/kit/ld-linux-aarch64.so.1",
        "--library-path",
        "job/kit/lib",
        "job/kit/edgebench-runner",
    )
    assert build.command(".") == ("./ld-linux-aarch64.so.1", "--library-path", "./lib", "./edgebench-runner")


def test_every_archive_is_pinned_and_gives_files_of_its_own() -> None:
    places = [place for archive in (*WHEELS, *PACKAGES) for place in archive.members.values()]
    assert len(set(places)) == len(places)
    for archive in (*WHEELS, *PACKAGES):
        assert len(archive.sha256) == 64
        assert archive.license


def test_a_cached_archive_is_used_without_a_network_unless_it_was_changed(tmp_path: Path) -> None:
    package = replace(PACKAGES[0], pool="http://127.0.0.1:9/", place="x.deb", sha256=hashlib.sha256(b"deb").hexdigest())
    (tmp_path / package.sha256).write_bytes(b"deb")
    assert fetch.fetch(package, tmp_path).read_bytes() == b"deb"
    (tmp_path / package.sha256).write_bytes(b"changed")
    with pytest.raises(
        MissingError, match=r"the kit needs x\.deb \(Debian package\), which can't be fetched: .*refused"
    ):
        fetch.fetch(package, tmp_path)


def test_without_an_index_the_missing_wheel_is_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(
        MissingError, match=r"wheel of ai-edge-litert==[\d.]+, and pip could not fetch it: .*check the network"
    ) as raised:
        fetch.fetch(LITERT, tmp_path / "cache")
    assert "\n" not in str(raised.value)
    assert not list((tmp_path / "cache").iterdir())


def test_an_archive_that_is_not_the_pinned_one_is_not_used(tmp_path: Path) -> None:
    package = replace(PACKAGES[0], pool=f"{tmp_path.as_uri()}/", place="x.deb")
    (tmp_path / "x.deb").write_bytes(b"something else")
    with pytest.raises(StageError, match="it was not used"):
        fetch.fetch(package, tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


def test_files_are_taken_out_of_a_debian_package_and_a_broken_one_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "lib.so").write_bytes(b"library")
    subprocess.run(["tar", "-cJf", "data.tar.xz", "./lib.so"], cwd=tmp_path, check=True)
    package = replace(PACKAGES[0], members={"./lib.so": "lib/lib.so"})
    path = tmp_path / "x.deb"
    path.write_bytes(deb(b"data.tar.xz", (tmp_path / "data.tar.xz").read_bytes()))
    assert fetch.members_of(package, path) == {"lib/lib.so": b"library"}
    for broken in (b"", b"!<arch>\n", deb(b"data.tar.xz", b"no tar"), deb(b"other", b"")):
        path.write_bytes(broken)
        with pytest.raises(StageError, match="can't be unpacked"):
            fetch.members_of(package, path)


def test_without_zig_the_extra_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p]; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from edgebench.devices.kit import build; from edgebench.errors import MissingError\n"
        "try: build.build(Path(sys.argv[2]))\n"
        "except MissingError as error: print(error)\n"
    )
    root = str(Path(build.__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, root, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert "needs the package 'ziglang': pip install 'edgebench[kit]'" in done.stdout, done.stderr
