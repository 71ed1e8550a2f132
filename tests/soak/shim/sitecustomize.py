"""Python imports this into each process of a node that the soak disturbs: its clock, and its disk.

In the folder `DISTURBED`, a number in `clock` shifts the time of day by so many seconds, and while there is
a file `slow-disk`, every fsync takes so long as it says.
"""

import os
import time
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _typeshed import HasFileno

_FOLDER = os.environ["DISTURBED"]
_fsync = os.fsync


def _told(name: str) -> float:
    try:
        with open(os.path.join(_FOLDER, name), encoding="ascii") as file:
            return float(file.read() or 0)
    except OSError:
        return 0.0


def _shifted(clock: Callable[[], float]) -> Callable[[], float]:
    return lambda: clock() + _told("clock")


def _shifted_ns(clock: Callable[[], int]) -> Callable[[], int]:
    return lambda: clock() + int(_told("clock") * 1e9)


def _slow_fsync(fd: "int | HasFileno") -> None:
    time.sleep(_told("slow-disk"))
    _fsync(fd)


time.time = _shifted(time.time)
time.time_ns = _shifted_ns(time.time_ns)
os.fsync = _slow_fsync
