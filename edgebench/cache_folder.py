"""Where edgebench keeps what outlives a run: side environments, trained zoo networks and the locks of devices."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """The absolute path of folder `name` in `$EDGEBENCH_HOME`, else in the user's cache folder; it may be absent."""
    home = os.environ.get("EDGEBENCH_HOME")
    if home:
        return Path(home).expanduser().absolute() / name
    import platformdirs

    return platformdirs.user_cache_path("edgebench") / name
