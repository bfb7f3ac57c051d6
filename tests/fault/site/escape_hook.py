"""Attempts to escape from an executor that is Python (tests/fault/escape.c), made when a graph's weights
are looked at, which is after the sandbox has closed: a hostile library, imported with the interpreter.

PRONY_ESCAPES is a JSON list of attempts and their targets, PRONY_ESCAPE_LIB what makes them; a file of
weights of 4 * n bytes asks for the nth one, from 1. The answer is an error of the load.
"""
import ctypes
import json
import os

if "PRONY_ESCAPES" in os.environ:
    LIBRARY = ctypes.CDLL(os.environ["PRONY_ESCAPE_LIB"])
    ATTEMPTS = json.loads(os.environ["PRONY_ESCAPES"])

    look = os.fstat

    def attempt(file):
        if "/weights/" not in os.readlink(f"/proc/self/fd/{file}"):
            return look(file)
        name, target = ATTEMPTS[look(file).st_size // 4 - 1]
        denied = LIBRARY.escape_try(name.encode(), target.encode())
        raise RuntimeError(f"escape {name}: {'denied' if denied else 'done'}")

    os.fstat = attempt
