"""The store, with real SQLite files: what is kept, what survives a kill, and what is said when a file fails."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgebench import database
from edgebench import store as store_module
from edgebench.errors import ConfigError, MissingError
from edgebench.store import RunInfo, Store
from edgebench.types import (
    Artifact,
    Caution,
    Census,
    Conditions,
    Divergence,
    Evaluation,
    Format,
    OutputError,
    Precision,
    Record,
    Round,
    Split,
    Status,
)

AT = "2026-12-01T09:30:00Z"


def a_record(cell: str = "a", status: Status = Status.OK, **changes: object) -> Record:
    failure = {} if status is Status.OK else {"stage": "convert", "reason": "was ended by SIGSEGV"}
    named = {
        "cell": cell,
        "status": status,
        "model": "net",
        "device": "host",
        "runtime": "litert",
        "threads": 1,
        "delegate": "cpu",
        "batch": 1,
        "at": AT,
        "recipe": "tflite-int8",
    }
    return Record(**(named | failure | changes))  # type: ignore[arg-type]


def a_round(index: int, latency_ns: int = 4_000_000) -> Round:
    conditions = Conditions(at=AT, temperature_c=41.5)
    return Round(
        index=index,
        latencies_ns=(latency_ns, latency_ns + 1),
        warmup_ns=(latency_ns * 2,),
        load_ns=1,
        first_ns=2,
        peak_rss_bytes=None,
        runtime_version="2.3.0",
        delegate="cpu",
        delegated_fraction=None,
        affinity=(0, 1),
        before=conditions,
        after=conditions,
        is_steady=False,
        non_finite={"logits": 3},
    )


def an_artifact(sha256: str = "f" * 64) -> Artifact:
    census = Census(
        precision=Precision.FULL_INT8, ops={"CONV_2D:int8": 2}, weight_bytes={"int8": 10}, parameters=10, macs=None
    )
    return Artifact(
        format=Format.TFLITE,
        files=("a.tflite",),
        sha256=sha256,
        size_bytes=12,
        inputs=(),
        outputs=(),
        census=census,
        batch=None,
        conversion_peak_rss_bytes=512,
    )


def test_what_is_added_comes_back_equal(tmp_path: Path) -> None:
    same = OutputError(sqnr_db=float("inf"), cosine=1.0, max_abs_error=0.0, mean_abs_error=0.0)
    divergence = Divergence(outputs={"logits": same})
    evaluation = Evaluation(
        task=None, n=3, metrics={}, baseline_metrics={}, divergence=divergence, split=Split(device=divergence)
    )
    record = a_record(artifact=an_artifact(), evaluation=evaluation, model="模型 \udcff | 'é'")
    run = RunInfo(
        name="r",
        command=("edgebench", "run", "m.yaml"),
        created_at=AT,
        model="net.onnx",
        cautions=(Caution(code="synthetic-inputs", message="m"),),
        environment={"python": "3.11"},
    )
    with Store.open(tmp_path / "records.sqlite") as store:
        store.set_run(run)
        store.add(record)
        store.add_round("a", a_round(0))
        store.add_artifact("key", an_artifact())
    with Store.open(tmp_path / "records.sqlite", read_only=True) as store:
        assert store.run() == run
        assert store.records() == (record,)
        assert store.rounds("a") == (a_round(0),)
        assert store.artifact("key") == an_artifact()
        assert store.artifact("other") is None
        assert store.rounds("other") == ()


def test_records_are_the_latest_of_each_cell_in_the_order_they_were_first_asked(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        store.add(a_record("a", Status.FAILED))
        store.add(a_record("b"))
        store.add(a_record("a"))
        assert [(record.cell, record.status) for record in store.records()] == [("a", Status.OK), ("b", Status.OK)]
        assert [record.status for record in store.history("a")] == [Status.FAILED, Status.OK]


def test_a_cell_that_is_ok_keeps_its_record(tmp_path: Path) -> None:
    first = a_record("a")
    with Store.open(tmp_path / "s.sqlite") as store:
        store.add(first)
        store.add(replace(first, at="2027-01-01T00:00:00Z"))
        store.add(a_record("a", Status.FAILED))
        assert store.history("a") == (first,)
        assert store.has_ok("a")
        assert not store.has_ok("b")


def test_a_round_is_kept_once_and_rounds_come_in_order(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        store.add_round("a", a_round(1))
        store.add_round("a", a_round(0))
        store.add_round("a", a_round(1, latency_ns=9_000_000))
        store.add_round("b", a_round(0))
        assert store.rounds("a") == (a_round(0), a_round(1))


def test_an_artifact_made_again_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        store.add_artifact("key", an_artifact("a" * 64))
        store.add_artifact("key", an_artifact("b" * 64))
        assert store.artifact("key") == an_artifact("b" * 64)


def test_rounds_survive_a_kill_9_right_after_they_were_added(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    program = (
        "import os, signal, sys; sys.path.insert(0, sys.argv[2]); from test_store import *\n"
        "store = Store.open(sys.argv[1])\n"
        "store.add_round('a', a_round(0)); store.add_round('a', a_round(1))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(path), str(Path(__file__).parent)], check=False)
    assert ended.returncode == -signal.SIGKILL
    with Store.open(path) as store:
        assert store.rounds("a") == (a_round(0), a_round(1))


def test_a_record_from_before_an_optional_field_was_added_loads(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with Store.open(path) as store:
        store.add(a_record("a"))
    with sqlite3.connect(path) as connection:
        body = json.loads(connection.execute("select body from records").fetchone()[0])
        del body["environment"], body["plan"]
        body["from_a_newer_edgebench"] = 1
        connection.execute("update records set body = ?", (json.dumps(body),))
    with Store.open(path) as store:
        assert store.records() == (a_record("a"),)


def test_a_round_from_before_steadiness_and_finiteness_were_kept_loads(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with Store.open(path) as store:
        store.add_round("a", a_round(0))
    with sqlite3.connect(path) as connection:
        body = json.loads(connection.execute("select body from rounds").fetchone()[0])
        del body["is_steady"], body["non_finite"]
        connection.execute("update rounds set body = ?", (json.dumps(body),))
    with Store.open(path) as store:
        assert store.rounds("a") == (replace(a_round(0), is_steady=None, non_finite={}),)


def test_columns_beside_the_body_serve_sql_users(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite") as store:
        store.add(a_record("a", batch=None))
    columns = "cell, status, model, recipe, device, runtime, threads, batch, at"
    with sqlite3.connect(tmp_path / "s.sqlite") as connection:
        found = connection.execute(f"select {columns} from records").fetchone()
    assert found == ("a", "ok", "net", "tflite-int8", "host", "litert", 1, None, AT)


def test_a_run_stays_one_file_that_opens_from_a_read_only_folder(tmp_path: Path) -> None:
    folder = tmp_path / "published"
    folder.mkdir()
    with Store.open(folder / "s.sqlite") as store:
        store.add(a_record("a"))
    assert [file.name for file in folder.iterdir()] == ["s.sqlite"]
    (folder / "s.sqlite").chmod(0o444)
    folder.chmod(0o555)
    try:
        with Store.open(folder / "s.sqlite", read_only=True) as store:
            assert len(store.records()) == 1
            with pytest.raises(ConfigError, match=r"s\.sqlite can't be written: check the rights"):
                store.add(a_record("b"))
    finally:
        folder.chmod(0o755)


def test_two_processes_may_write_by_turns(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.sqlite") as one, Store.open(tmp_path / "s.sqlite") as other:
        one.add(a_record("a"))
        other.add(a_record("a", at="2027-01-01T00:00:00Z"))
        other.add(a_record("b"))
        assert [record.cell for record in one.records()] == ["a", "b"]
        assert one.history("a") == other.history("a") == (a_record("a"),)


def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    Store.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("update schema_version set version = 7")
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=r"has schema version 7; this edgebench knows up to 1: upgrade edgebench"):
        Store.open(path)
    assert path.read_bytes() == before


def test_an_older_schema_is_migrated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.sqlite"
    with Store.open(path) as store:
        store.add(a_record("a"))

    def add_a_column(connection: object) -> None:
        connection.exec_driver_sql("alter table records add column note varchar")  # type: ignore[attr-defined]

    monkeypatch.setattr(store_module, "_MIGRATIONS", (add_a_column,))
    with pytest.raises(ConfigError, match="old schema version 1: give its command again to migrate it to 2"):
        Store.open(path, read_only=True)
    for _ in range(2):
        with Store.open(path) as store:
            assert store.records() == (a_record("a"),)
    with sqlite3.connect(path) as connection:
        assert connection.execute("select version from schema_version").fetchall() == [(2,)]
        assert "note" in {row[1] for row in connection.execute("pragma table_info(records)")}


def test_a_migration_that_fails_leaves_the_old_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.sqlite"
    Store.open(path).close()

    def half(connection: object) -> None:
        connection.exec_driver_sql("alter table records add column note varchar")  # type: ignore[attr-defined]
        connection.exec_driver_sql("not sql")  # type: ignore[attr-defined]

    monkeypatch.setattr(store_module, "_MIGRATIONS", (half,))
    with pytest.raises(ConfigError, match="syntax error"):
        Store.open(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("select version from schema_version").fetchall() == [(1,)]
        assert "note" not in {row[1] for row in connection.execute("pragma table_info(records)")}


def test_files_that_are_no_store_are_refused_in_one_line(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database at all, but longer than a header of one\n" * 40)
    with pytest.raises(ConfigError, match=r"notes\.txt is not an SQLite database"):
        Store.open(text)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("create table songs (name)")
    with pytest.raises(ConfigError, match=r"is a database of something else \(tables: songs\)"):
        Store.open(other)
    with pytest.raises(ConfigError, match="can't be opened: check that its folder exists"):
        Store.open(tmp_path / "no" / "such" / "s.sqlite")
    with pytest.raises(ConfigError, match="can't be opened"):
        Store.open(tmp_path)
    with pytest.raises(ConfigError, match="does not exist: there are no records to read"):
        Store.open(tmp_path / "absent.sqlite", read_only=True)
    assert not (tmp_path / "absent.sqlite").exists()
    (tmp_path / "empty.sqlite").touch()
    with pytest.raises(ConfigError, match="holds no records yet"):
        Store.open(tmp_path / "empty.sqlite", read_only=True)


def test_a_damaged_file_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with Store.open(path) as store:
        for cell in range(40):
            store.add(a_record(str(cell)))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 3])
    with pytest.raises(ConfigError, match="is damaged: restore a copy"), Store.open(path) as store:
        store.records()


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with Store.open(path) as store:
        store.add(a_record("a"))
    with sqlite3.connect(path) as connection:
        connection.execute("""update records set body = '{"cell": 3}'""")
    with Store.open(path) as store, pytest.raises(ConfigError, match="the record of cell a is damaged") as told:
        store.records()
    assert "\n" not in str(told.value)


def test_a_locked_file_is_told_after_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_BUSY_TIMEOUT_S", 0.05)
    path = tmp_path / "s.sqlite"
    with Store.open(path) as store:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("begin exclusive")
        with pytest.raises(ConfigError, match="is locked by another process: wait for it to end"):
            store.add(a_record("a"))
        holder.execute("rollback")
        holder.close()
        store.add(a_record("a"))


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root to mount a small disk")
def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[2]); from test_store import *\n"
        "store = Store.open(sys.argv[1] + '/s.sqlite')\n"
        "kept = 0\n"
        "try:\n"
        "    while True:\n"
        "        store.add_round('a', a_round(kept)); kept += 1\n"
        "except MissingError as error:\n"
        "    print(error)\n"
        "assert kept and store.rounds('a') == tuple(a_round(i) for i in range(kept))\n"
    )
    script = 'mount -t tmpfs -o size=128k none "$1" || exit 77; exec "$2" -c "$3" "$1" "$4"'
    command = [
        "unshare",
        "-m",
        "sh",
        "-c",
        script,
        "sh",
        str(tmp_path),
        sys.executable,
        program,
        str(Path(__file__).parent),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode == 77 or "unshare failed" in ended.stderr:
        pytest.skip("mounting is not allowed here")
    assert ended.returncode == 0, ended.stderr
    assert "no space left to write" in ended.stdout


@pytest.mark.parametrize(
    ("url", "told"),
    [
        (
            "mysql://user:secret@host/db",
            r"a store is a file or postgresql://user@host/database, not mysql://user:\*\*\*@host/db",
        ),
        ("postgres://host/db", "a store is a file or postgresql://user@host/database, not postgres://host/db"),
        ("sqlite://", "a store is a file or postgresql://user@host/database"),
        ("://", "can't be read"),
    ],
)
def test_a_url_that_is_no_store_says_what_is(url: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as error:
        Store.open(url)
    assert "secret" not in str(error.value)


def test_a_postgresql_url_without_its_driver_or_server_is_told_without_the_password() -> None:
    with pytest.raises((MissingError, ConfigError)) as error:
        Store.open("postgresql://user:secret@127.0.0.1:9/db")
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_an_sqlite_url_is_a_path(tmp_path: Path) -> None:
    with Store.open(f"sqlite:///{tmp_path}/s.sqlite") as store:
        store.add(a_record("a"))
    with Store.open(str(tmp_path / "s.sqlite"), read_only=True) as store:
        assert store.has_ok("a")
