"""A run's folder: one user at a time, records in its store, files named by their content."""

from __future__ import annotations

import fcntl
import shutil
from pathlib import Path
from typing import IO

from edgebench.errors import ConfigError
from edgebench.store import Store


class RunFolder:
    """An open run folder, locked against a second edgebench.

    records.sqlite   every record, and the rounds measured so far
    baseline/        the model's snapshot          data/       prepared samples
    artifacts/       converted files               outputs/    what they answered to the evaluation samples
    logs/            what each child process said  work/       half-made files, only while it is open
    given/           samples for files that the user brought
    """

    def __init__(self, path: Path, lock: IO[bytes], store: Store) -> None:
        self.path = path
        self.store = store
        self._lock = lock

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The folder at `path`, made when it is absent.

        Raises:
            ConfigError: it can't be written, holds something else, or another edgebench works in it.
        """
        path = path.absolute()
        try:
            if path.is_dir() and any(path.iterdir()) and not (path / "records.sqlite").exists():
                known = {".lock", "work", "logs"}
                strange = sorted(entry.name for entry in path.iterdir() if entry.name not in known)
                if strange:
                    raise ConfigError(
                        f"{path} holds other files ({strange[0]} ...); name a new or an earlier run folder"
                    )
            path.mkdir(parents=True, exist_ok=True)
            lock = (path / ".lock").open("ab")
        except FileExistsError as error:
            raise ConfigError(f"{path} is a file; --out needs a folder") from error
        except PermissionError as error:
            raise ConfigError(f"can't write to {path}: permission denied; choose another folder with --out") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.close()
            raise ConfigError(f"another edgebench works in {path}; wait for it, or give another --out") from error
        return cls(path, lock, Store.open(path / "records.sqlite"))

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()
        shutil.rmtree(self.path / "work", ignore_errors=True)
        self._lock.close()
