"""What the soak does to a job, by name."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from elastic.agent.errors import HostError, StoreLostError
from tests.agent.cluster import Process
from tests.soak.hosts import Host

if TYPE_CHECKING:
    from tests.soak.run import Soak

MOST_NODES = 4
NO_FAULTS = ("join", "drain", "drain all but one")
"""What is done to a job that is not a fault."""
_GIVES_UP = StoreLostError.code
"""How an agent ends that has not reached its store for 15 s."""
_HOST_FAILS = HostError.code
"""How it ends where it cannot write its own files."""
_CLOCKS = (-86400.0, -3600.0, -3.0, 3.0, 3600.0, 30 * 86400.0)


def choose(soak: Soak) -> str:
    """What comes next; never the end of all nodes."""
    live = len(soak.live())
    names = ["join"] * 2 * (MOST_NODES - live + 1) + [*ALWAYS]
    if live > 1:
        names += WITH_TWO
    if live > 2:
        names += WITH_THREE
    name = soak.random.choice(names)
    return "kill node" if name == "join" and live >= MOST_NODES else name


def disturb(soak: Soak, name: str) -> None:
    """Do it, to a node of chance."""
    live = soak.live()
    if name == "join" or not live:
        soak.join()
        return
    {**ALWAYS, **WITH_TWO, **WITH_THREE}[name](soak, soak.random.choice(live))


def _for_a_while(soak: Soak, begin: Callable[[], None], end: Callable[[], None], longest: float = 9) -> None:
    begin()
    try:
        time.sleep(soak.random.uniform(1, longest))
    finally:
        end()


def _kill_workers(_: Soak, host: Host) -> None:
    for pid in host.node.workers():
        Process.send(pid, signal.SIGKILL)


def _kill_agent(_: Soak, host: Host) -> None:
    host.node.signal(signal.SIGKILL)


def _kill_node(_: Soak, host: Host) -> None:
    host.node.signal(signal.SIGKILL, workers=True)


def _kill_two(soak: Soak, _: Host) -> None:
    for host in soak.random.sample(soak.live(), 2):
        _kill_node(soak, host)


def _freeze(soak: Soak, host: Host, workers: bool = True) -> None:
    def send(number: signal.Signals) -> None:
        host.node.signal(number, workers=workers)

    _for_a_while(soak, lambda: send(signal.SIGSTOP), lambda: send(signal.SIGCONT))


def _drain(_: Soak, host: Host) -> None:
    host.node.signal(signal.SIGTERM)


def _drain_all_but_one(soak: Soak, _: Host) -> None:
    for host in soak.live()[1:]:
        _drain(soak, host)


def _cut(soak: Soak, host: Host) -> None:
    _for_a_while(soak, host.links.cut, host.links.restore)


def _cut_for_good(_: Soak, host: Host) -> None:
    host.expected.add(_GIVES_UP)
    host.links.cut()


def _shift_clock(soak: Soak, host: Host) -> None:
    host.shift_clock(soak.random.choice(_CLOCKS))


def _hang(soak: Soak, _: Host) -> None:
    (soak.job.ledger / "hang-one").touch()


def _slow_disk(soak: Soak, host: Host) -> None:
    _for_a_while(soak, lambda: host.slow_disk(soak.random.uniform(0.2, 3)), lambda: host.slow_disk(0))


def _full_disk(soak: Soak, _: Host) -> None:
    if soak.disk.mounted:
        _for_a_while(soak, soak.disk.fill, soak.disk.empty, longest=4)


def _full_host(soak: Soak, host: Host) -> None:
    if host.disk.mounted:
        host.expected.add(_HOST_FAILS)
        _for_a_while(soak, host.disk.fill, host.disk.empty)


def _lose_leader(soak: Soak, _: Host) -> None:
    if (leader := soak.etcd.leader) is not None:
        _for_a_while(soak, lambda: soak.etcd.kill(leader), lambda: soak.etcd.start(leader))


def _cut_leader_off(soak: Soak, _: Host) -> None:
    if (leader := soak.etcd.leader) is not None:
        _for_a_while(soak, lambda: soak.etcd.freeze(leader), lambda: soak.etcd.wake(leader))


Fault = Callable[["Soak", Host], None]

ALWAYS: dict[str, Fault] = {
    "kill worker": _kill_workers,
    "freeze node": _freeze,
    "hung worker": _hang,
    "cut link": _cut,
    "clock jump": _shift_clock,
    "slow disk": _slow_disk,
    "full disk of checkpoints": _full_disk,
    "etcd leader lost": _lose_leader,
    "etcd leader cut off": _cut_leader_off,
}
WITH_TWO: dict[str, Fault] = {
    "kill agent": _kill_agent,
    "kill node": _kill_node,
    "freeze agent": lambda soak, host: _freeze(soak, host, workers=False),
    "cut link for good": _cut_for_good,
    "full disk of a node": _full_host,
    "drain": _drain,
}
WITH_THREE: dict[str, Fault] = {"kill two nodes": _kill_two, "drain all but one": _drain_all_but_one}
