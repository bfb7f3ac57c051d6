"""`python -m prony`, and the command `prony` of a package: the program itself, in place of Python."""

import os
import sys


def main() -> None:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bundle", "bin", "prony")
    # Backends that are PyTorch run in this interpreter, unless another one is named.
    if sys.executable:
        os.environ.setdefault("PRONY_PYTHON", sys.executable)
    try:
        os.execv(program, ["prony", *sys.argv[1:]])
    except OSError as fault:
        sys.exit(f"prony: error: cannot run '{program}': {fault.strerror}")


if __name__ == "__main__":
    main()
