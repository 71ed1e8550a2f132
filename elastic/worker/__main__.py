"""Run a training script as a worker of the elastic agent: `python -m elastic.worker SCRIPT ARGS...`.

The process first binds itself to its agent (`elastic.current`). After the script has succeeded, the process waits for
the other workers of its group. `-m MODULE` in place of SCRIPT runs a module.
"""

from __future__ import annotations

import os
import runpy
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastic.worker.session import Session


def main() -> None:
    """Run the training script named on the command line as a worker."""
    from elastic.errors import ElasticityError
    from elastic.worker.checkpoint_name import DamagedCommitError
    from elastic.worker.session import current

    try:
        _run_script(current())
    except DamagedCommitError as error:
        current().give_up(str(error))
        raise SystemExit(1) from None
    except ElasticityError as error:
        print(f"dsconfig: error: {error}", file=sys.stderr, flush=True)
        raise SystemExit(1) from None


def _run_script(session: Session) -> None:
    arguments = sys.argv[1:]
    try:
        if arguments[0] == "-m":
            sys.argv = arguments[1:]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = arguments
            sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise
    sys.stdout.flush()
    session.finish()


if __name__ == "__main__":
    main()
