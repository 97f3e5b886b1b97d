"""A TensorBoard log of scalars, written through the `tensorboard` package alone: no framework is needed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from edgebench.errors import missing_extra


class EventLog:
    """Scalars by name and step in `folder`; what an interrupted run wrote after step `purge_after` is hidden."""

    def __init__(self, folder: Path, *, purge_after: int) -> None:
        try:
            from tensorboard.compat.proto import (  # type: ignore[import-untyped]  # no stubs
                event_pb2,
                summary_pb2,
            )
            from tensorboard.summary.writer.event_file_writer import (  # type: ignore[import-untyped]  # no stubs
                EventFileWriter,
            )
        except ImportError as error:
            raise missing_extra("tensorboard", "torch", "the log of a training") from error
        self._event: Any = event_pb2.Event
        self._summary: Any = summary_pb2.Summary
        self._session: Any = event_pb2.SessionLog
        self._writer: Any = EventFileWriter(str(folder))
        if purge_after:
            restart = self._session(status=self._session.START)
            self._writer.add_event(self._event(wall_time=time.time(), step=purge_after + 1, session_log=restart))

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """Append one point and make it visible to a running TensorBoard."""
        summary = self._summary(value=[self._summary.Value(tag=name, simple_value=value)])
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=summary))
        self._writer.flush()
