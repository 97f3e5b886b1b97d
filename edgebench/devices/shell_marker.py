"""Exit status and stderr over a shell that has one stream only: what old Android devices offer."""

from __future__ import annotations

import re
import uuid

from edgebench.devices.remote_link import ShellResult
from edgebench.errors import StageError


class MarkedCommand:
    """A command whose output ends in its stderr and its exit status, each after a random marker."""

    def __init__(self, command: str) -> None:
        marker = f"edgebench-{uuid.uuid4().hex}"
        file = f"/data/local/tmp/{marker}"
        self._end = re.compile(rf"{marker}-err\r?\n(.*?){marker}-end:(\d+)\r?\n\Z".encode(), re.DOTALL)
        # In parentheses, so that an `exit` in the command ends it and not what follows.
        self.line = f"({command}\n) 2>{file}; s=$?; echo {marker}-err; cat {file}; rm -f {file}; echo {marker}-end:$s"

    def result(self, output: bytes) -> ShellResult:
        """What the command gave; StageError when the output was cut before its end."""
        found = self._end.search(output)
        if found is None:
            raise StageError("the device's answer was cut before its end")
        stdout, stderr = output[: found.start()], found[1]
        if found[0].endswith(b"\r\n"):  # a terminal of an old device turned each \n into this
            stdout, stderr = stdout.replace(b"\r\n", b"\n"), stderr.replace(b"\r\n", b"\n")
        return ShellResult(exit_code=int(found[2]), stdout=stdout, stderr=stderr)
