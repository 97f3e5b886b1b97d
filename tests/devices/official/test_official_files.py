"""The files of official programs: what a device's file may say of them, and how they come over https."""

from __future__ import annotations

import datetime
import hashlib
import http.server
import ipaddress
import ssl
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from edgebench.devices.inventory import list_devices
from edgebench.devices.official import program_files
from edgebench.errors import ConfigError, MissingError, StageError
from edgebench.types import OfficialTool

PROGRAM = b"#!/bin/sh\necho program\n"
SHA256 = hashlib.sha256(PROGRAM).hexdigest()


class Pages(http.server.BaseHTTPRequestHandler):
    """/program is the program, /moved leads to it, /insecure leads out of https, /cut ends too soon."""

    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path in ("/moved", "/insecure"):
            self.send_response(302)
            host = f"localhost:{self.server.server_port}"
            self.send_header(
                "Location", f"https://{host}/program" if self.path == "/moved" else f"http://{host}/program"
            )
            self.end_headers()
        elif self.path in ("/program", "/cut"):
            self.send_response(200)
            self.send_header("Content-Length", str(len(PROGRAM) + 5 * (self.path == "/cut")))
            self.end_headers()
            self.wfile.write(PROGRAM)
        else:
            self.send_error(404)

    def log_message(self, *words):
        pass


@pytest.fixture
def site(tmp_path, monkeypatch):
    """The address of an https server on this machine, whose certificate is trusted."""
    monkeypatch.setenv("EDGEBENCH_HOME", str(tmp_path / "home"))
    certificate, key = a_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    server.asked = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    server.address = f"https://localhost:{server.server_port}"
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def a_certificate(folder):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "cert.pem", folder / "key.pem"


def bring(address, sha256=SHA256):
    return program_files.bring(OfficialTool(url=address, sha256=sha256), "benchmark_model", "phone")


@pytest.mark.parametrize("page", ["/program", "/moved"])
def test_a_program_is_fetched_once_and_proven_each_time(site, page):
    first = bring(site.address + page)
    assert first.path.read_bytes() == PROGRAM
    assert first.path.stat().st_mode & 0o100
    asked = len(site.asked)
    assert bring(site.address + page, SHA256.upper()) == first
    assert len(site.asked) == asked
    first.path.write_bytes(b"other")
    assert bring(site.address + page).path.read_bytes() == PROGRAM
    assert len(site.asked) == 2 * asked


@pytest.mark.parametrize(
    ("page", "sha256", "error", "message"),
    [
        ("/program", "0" * 64, StageError, f"gave a file with the sha256 {SHA256}, not 000"),
        (
            "/cut",
            hashlib.sha256(PROGRAM + b"     ").hexdigest(),
            StageError,
            f"gave a file with the sha256 {SHA256}, not",
        ),
        (
            "/insecure",
            SHA256,
            MissingError,
            "it leads on to 'http://localhost:.*', which is not https",
        ),
        ("/gone", SHA256, MissingError, "can't be fetched: Not Found"),
    ],
)
def test_what_is_not_the_program_is_not_kept(site, tmp_path, page, sha256, error, message):
    with pytest.raises(error, match=message):
        bring(site.address + page, sha256)
    assert [path for path in (tmp_path / "home").rglob("*") if path.is_file()] == []


def test_a_file_without_an_end_is_given_up(site, monkeypatch):
    monkeypatch.setattr(program_files, "_MAX_BYTES", len(PROGRAM) - 1)
    with pytest.raises(StageError, match="no program is that long"):
        bring(site.address + "/program")


def test_an_untrusted_certificate_is_refused(site, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(MissingError, match="certificate verify failed"):
        bring(site.address + "/program")


def test_a_devices_file_names_its_tools_by_paths_beside_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices" / "phone.yaml").write_text(
        "driver: host\n"
        "tools:\n"
        "  benchmark_model:\n"
        "    path: tools/benchmark_model\n"
        "    external_library: /vendor/lib64/libedgetpu.so\n"
        f"  litert_benchmark_model: {{url: 'https://example.org/x', sha256: {SHA256}}}\n"
    )
    (spec,) = [spec for spec in list_devices() if spec.name == "phone"]
    assert spec.tools.benchmark_model.path == str(tmp_path / "devices" / "tools" / "benchmark_model")
    assert spec.tools.benchmark_model.external_library == "/vendor/lib64/libedgetpu.so"
    assert spec.tools.litert_benchmark_model.url == "https://example.org/x"
    assert spec.tools.onnxruntime_perf_test is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{path: a, url: 'https://x', sha256: " + SHA256 + "}", "needs one of `path` and `url`"),
        ("{sha256: " + SHA256 + "}", "needs one of `path` and `url`"),
        ("{url: 'http://x', sha256: " + SHA256 + "}", "'http://x' is not https"),
        ("{url: 'https://x y', sha256: " + SHA256 + "}", "is no address"),
        ("{url: 'https://x'}", "needs the `sha256` of what it gives"),
        ("{path: a, sha256: abc}", "'abc' is not 64 hexadecimal digits"),
        ('{path: a, options: "a\\nb"}', "options: 'a.nb' is empty, or holds"),
        ("{pth: a}", "did you mean 'path'?"),
        ("a", "needs keys and values"),
    ],
)
def test_a_wrong_tools_section_is_told_with_its_place(tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "devices").mkdir()
    (tmp_path / "devices" / "phone.yaml").write_text(f"driver: host\ntools:\n  benchmark_model: {text}\n")
    with pytest.raises(ConfigError, match=r"phone.yaml line 3: .*") as error:
        list_devices()
    assert message.replace("a.nb", "a\\nb") in str(error.value)
