"""`python -m dsconfig`: the same as the `dsconfig` command."""

import sys

from dsconfig.cli import main

if __name__ == "__main__":
    sys.exit(main())
