"""Every error that edgebench raises on purpose. The command line turns each into one line and an exit status.

EdgebenchError                 (exit status 2)
├── InputError                 a file, option or value that the user gave is wrong
│   ├── ModelError             a model can't be loaded or is not what it says
│   ├── DataError              a dataset can't be read or does not fit the model
│   └── ConfigError            a YAML file, recipe or option is wrong
├── MissingError               something needed is absent: extra, tool, device, free space  (exit status 3)
└── StageError                 a cell could not be done; costs that cell only               (exit status 1)
    ├── RefusedError           it can't be right, so it was not tried
    ├── ChildDiedError         its process was ended by a signal
    └── ChildTimeoutError      its process was ended at its time limit

A message says what, which one, what was found, and what to do next, on one line.
"""


class EdgebenchError(Exception):
    exit_status = 2


class InputError(EdgebenchError):
    pass


class ModelError(InputError):
    pass


class DataError(InputError):
    pass


class ConfigError(InputError):
    pass


class MissingError(EdgebenchError):
    exit_status = 3


class StageError(EdgebenchError):
    exit_status = 1


class RefusedError(StageError):
    pass


class ChildDiedError(StageError):
    pass


class ChildTimeoutError(StageError):
    pass


def one_line(error: BaseException, limit: int = 300) -> str:
    """A foreign exception as one line: its class and the start of its message."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:limit]}" if text else type(error).__name__


def missing_extra(package: str, extra: str, needed_for: str) -> MissingError:
    """The error for an import that failed because an optional dependency is absent."""
    return MissingError(f"{needed_for} needs the package '{package}': pip install 'edgebench[{extra}]'")
