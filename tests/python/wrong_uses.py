"""A table of wrong uses of the public Python API, and a program that runs some of them.

Each row is a name, the exception that the use must end with, words that its message must have, and
the use itself. `python wrong_uses.py NAME...` runs rows and prints a line of JSON for each.
"""

import json
import sys

import wrong_uses_of_data  # noqa: F401  each enters its rows
import wrong_uses_of_servers  # noqa: F401
import wrong_uses_of_sessions  # noqa: F401
from wrong_use_tools import KEPT, ROWS, SECRET  # noqa: F401


def run(name):
    exception, words, use = ROWS[name]
    try:
        use()
    except BaseException as error:  # noqa: BLE001  whatever it is, it is the outcome
        return {"types": [one.__name__ for one in type(error).__mro__],
                "module": type(error).__module__, "text": str(error)}
    return {"types": [], "module": "", "text": ""}


def main():
    for name in sys.argv[1:]:
        print(json.dumps({"begins": name}), flush=True)
        print(json.dumps({"name": name} | run(name)), flush=True)
        KEPT.clear()
    sys.stdout.flush()


if __name__ == "__main__":
    main()
