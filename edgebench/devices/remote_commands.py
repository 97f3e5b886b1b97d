"""Shell lines for a device: commands with a time limit that holds there, and the end of what they started.

They are for any POSIX shell: Android's mksh with toybox, BusyBox, dash and bash.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

# In the environment of every process that a command starts; children inherit it even when they leave the process group
# or the session, and /proc shows it.
_MARK = "EDGEBENCH_RUN"
# In a work folder: what a runtime writes unasked (onnxruntime's telemetry does) goes when the folder goes. HOME stays,
# as Python finds packages by it.
_OWN_FOLDERS = "TMPDIR=$PWD XDG_CACHE_HOME=$PWD/.cache"


def limited(argv: Sequence[str], limit_s: int, mark: str, folder: str | None, has_timeout: bool) -> str:
    """A line that runs `argv` in `folder`, at most `limit_s` seconds, and exits with its status, 128+N for signal N.

    The limit holds on the device: adbd and sshd leave a command running when their client is gone.
    """
    environment, command = f"{_MARK}={mark}", f"{shlex.join(argv)} </dev/null"
    if folder is not None:
        environment += f" {_OWN_FOLDERS}"
    end_all = f"({kill_marked(mark)}) >/dev/null 2>&1 </dev/null"
    if has_timeout:
        # It ends its own child or group only; those that left it would hold the output open, and run on.
        body = f"{environment} timeout -s KILL {limit_s} {command}; s=$?; case $s in 124|137) {end_all};; esac; exit $s"
    else:
        wait = f"n={limit_s}; while [ $n -gt 0 ] && kill -0 $c; do sleep 1; n=$((n-1)); done; [ $n -gt 0 ]"
        watchdog = f"({wait} || {end_all}) >/dev/null 2>&1 </dev/null & w=$!"
        # After a kill the watchdog may still be ending the others.
        finish = "if [ $s = 137 ]; then wait $w; else kill $w 2>/dev/null; fi; exit $s"
        body = f"{environment} {command} & c=$!; {watchdog}; wait $c; s=$?; {finish}"
    return body if folder is None else f"cd {shlex.quote(folder)} || exit 125; {body}"


def kill_marked(mark: str) -> str:
    """A line that kills every process whose mark begins with `mark`; exit status 1, and the ids, when some stay."""
    # A regular expression, not -F: toybox searches those past the zero bytes of `environ`. Its own pattern is no match.
    return (
        f"n=0; while p=$(grep -l '{_MARK}[=]{mark}' /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3) && [ -n \"$p\" ]; "
        "do [ $n -lt 50 ] || { echo $p; exit 1; }; "
        "kill -9 $p 2>/dev/null; n=$((n+1)); sleep 0.1 2>/dev/null || sleep 1; done; exit 0"
    )
