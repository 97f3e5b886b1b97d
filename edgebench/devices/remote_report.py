"""The format in which a remote device tells many things by one command: named sections of text."""

from __future__ import annotations

_HEAD = "@@edgebench "


def section(name: str, command: str) -> str:
    """A line of shell that prints what `command` prints, as the section `name`; its failure is an empty section.

    What it prints must end in a newline.
    """
    return f"echo '{_HEAD}{name}'; {{ {command}; }} 2>/dev/null\n"


def files(folder: str, *patterns: str) -> str:
    """A line of shell that prints the files of the absolute `folder` as lines "path in the folder:content".

    One process reads them all. The section is the folder without its first slash.
    """
    return section(folder[1:], f"cd {folder} && grep -sH '' {' '.join(patterns)}")


def read(text: str) -> dict[str, str]:
    """The sections by name."""
    found: dict[str, str] = {}
    name = None
    for line in text.splitlines(keepends=True):
        if line.startswith(_HEAD):
            name = line[len(_HEAD) :].strip()
            found[name] = ""
        elif name is not None:
            found[name] += line
    return found
