"""Which service a program uses, and with which token.

The service: an argument, then PRONY_ENDPOINT, then OCTOML_PROFILE_ENDPOINT, and without any of them
the program's own (`_service`). The token: an argument, then PRONY_TOKEN, OCTOML_PROFILE_API_TOKEN,
and the user's files, which is for the library to find; then, on a terminal, whoever sits there. The
authority that signed the service's certificate: an argument, or PRONY_CA, which the library looks at.
"""

from __future__ import annotations

import dataclasses
import getpass
import os
import sys
from typing import Any

from prony import _native, _service

_ENDPOINTS = ("PRONY_ENDPOINT", "OCTOML_PROFILE_ENDPOINT")
_TRIES = 3


@dataclasses.dataclass(frozen=True)
class Access:
    """How to reach a service: the keyword arguments of the functions of `_native`."""

    server: str
    token: str | None = dataclasses.field(default=None, repr=False)
    insecure: bool = False
    ca_file: str | None = None
    embedded: bool = False

    def arguments(self) -> dict[str, Any]:
        return {
            "server": self.server,
            "token": self.token,
            "insecure": self.insecure,
            "ca_file": self.ca_file,
        }


def endpoint(server_addr: str | None = None) -> str | None:
    """The service that is asked for; None: the embedded one."""
    if server_addr:
        return server_addr
    for variable in _ENDPOINTS:
        if value := os.environ.get(variable):
            return value
    return None


def resolve(
    server_addr: str | None = None,
    insecure: bool = False,
    access_token: str | None = None,
    ca_file: str | os.PathLike[str] | None = None,
) -> Access:
    """The service to use. Starts the embedded one, and asks for a token, where that is needed."""
    server = endpoint(server_addr)
    if server is None:
        return Access(_service.address(), embedded=True)
    ca_file = os.fspath(ca_file) if ca_file is not None else None
    access = Access(server, access_token or None, bool(insecure), ca_file)
    if _native.lacks_token(**access.arguments()) and _is_terminal():
        access = dataclasses.replace(access, token=_ask(access))
    return access


def _is_terminal() -> bool:
    try:
        return sys.stdin.isatty() and sys.stderr.isatty()
    except (AttributeError, ValueError):  # None, or closed
        return False


def _ask(access: Access) -> str:
    """A token that the service takes, which is kept for the next time."""
    failure: _native.Error | None = None
    for _ in range(_TRIES):
        token = getpass.getpass(f"token for '{access.server}': ", sys.stderr).strip()
        if not token:
            break
        try:
            _native.ping(**{**access.arguments(), "token": token})
        except _native.Error as error:
            # One that can't be a token is as wrong as one that isn't taken.
            if error.code not in (_native.EDENIED, _native.EUSAGE):
                raise
            failure = error
            print(f"prony: warning: {error}", file=sys.stderr)
            continue
        try:
            _native.save_token(token)
        except _native.Error as error:
            print(f"prony: warning: {error}", file=sys.stderr)
        return token
    if failure is None:
        failure = _native.Error(f"no token was given for '{access.server}'")
        failure.code = _native.EDENIED
    raise failure
