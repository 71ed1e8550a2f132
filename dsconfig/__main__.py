"""Run the `dsconfig` command with `python -m dsconfig`."""

import os
import sys

if __name__ == "__main__":
    # `python -m` imports from the working folder first: a repository's `yaml.py` must not run.
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if sys.path and sys.path[0] in ("", os.getcwd()) and package != os.getcwd():
        del sys.path[0]
    from dsconfig.cli import main

    sys.exit(main())
