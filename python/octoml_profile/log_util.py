"""octoml-profile's log file. prony says in its reports what goes wrong, and logs nothing: the file is
for programs that log to it, and its folder is made when it is first asked for."""

import functools
import logging
import tempfile
from typing import Any

__all__ = ["LOGDIR", "LOGFILE", "get_file_logger"]  # noqa: F822 -- made when asked for


@functools.cache
def _folder() -> str:
    return tempfile.mkdtemp(prefix="octoml_profile_")


def __getattr__(name: str) -> Any:
    if name == "LOGDIR":
        return _folder()
    if name == "LOGFILE":
        return f"{_folder()}/client.log"
    raise AttributeError(f"module 'octoml_profile.log_util' has no attribute {name!r}")


def get_file_logger(name: str, filename: str | None = None) -> logging.Logger:
    """A logger that writes everything to a file (LOGFILE), and nowhere else."""
    handler = logging.FileHandler(filename or f"{_folder()}/client.log")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logger = logging.getLogger(name)
    for old in list(logger.handlers):
        logger.removeHandler(old)
        old.close()
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    return logger
