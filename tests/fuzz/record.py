"""What a run of many inputs comes to: how many of each verb, what went wrong, the largest time and memory."""

from __future__ import annotations

import os
import pickle
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

SECONDS, MEGABYTES = 2.0, 100.0
"""What one input may cost."""
ENDLESS, ADDRESSES = 30, 3 << 30
"""Seconds of CPU time and bytes of address space beyond the start at which a run is stopped."""
FOLDER = Path(__file__).parents[2] / ".fuzz"
"""Where corpus, figures and findings are kept."""
STOP = FOLDER / "stop"
"""All processes of a run end when this file is there."""


class EndlessError(BaseException):
    """An input that takes too long; no `except Exception` of the program stops it."""


@dataclass(slots=True)
class Largest:
    """The input that took the most."""

    amount: float = 0.0
    data: bytes = b""

    def take(self, amount: float, data: bytes) -> None:
        if amount > self.amount:
            self.amount, self.data = amount, data


@dataclass(slots=True)
class Verb:
    """The figures of one verb."""

    inputs: int = 0
    seconds: float = 0.0
    longest: Largest = field(default_factory=Largest)
    largest: Largest = field(default_factory=Largest)


@dataclass(slots=True)
class Finding:
    """Inputs that went wrong alike; the smallest is kept."""

    count: int
    data: bytes


@dataclass(slots=True)
class Record:
    """Figures and findings, by name."""

    verbs: dict[str, Verb] = field(default_factory=dict)
    findings: dict[str, Finding] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)
    """Inputs by how they were made."""

    @property
    def inputs(self) -> int:
        return sum(each.inputs for each in self.verbs.values())

    def trial(self, data: bytes, kind: str) -> str | None:
        """Run one input and note what it took; None where it went wrong, else what the run was like."""
        from tests.fuzz.choices import decode
        from tests.fuzz.targets import fault, one

        name, like, wrong = decode(data).verb, None, ""
        before, start = _peak(), time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, ENDLESS)
        try:
            like = one(data)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            wrong = fault(error)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        seconds, megabytes = time.process_time() - start, _peak(reset=False) - before
        verb = self.verbs.setdefault(name, Verb())
        verb.inputs += 1
        verb.seconds += seconds
        verb.longest.take(seconds, data)
        verb.largest.take(megabytes, data)
        self.kinds[kind] += 1
        if not wrong and (seconds > SECONDS or megabytes > MEGABYTES):
            wrong = _confirmed(data)
        if wrong:
            self.found(wrong, data)
        return None if wrong else like

    def found(self, what: str, data: bytes, count: int = 1) -> None:
        known = self.findings.setdefault(what, Finding(0, data))
        known.count += count
        if known.count == count or len(data) < len(known.data):
            known.data = data
            folder = FOLDER / "findings"
            folder.mkdir(parents=True, exist_ok=True)
            slug = re.sub(r"\W+", "-", what)[:60]
            (folder / f"{slug}-{sha256(what.encode()).hexdigest()[:8]}").write_bytes(data)

    def add(self, other: Record) -> None:
        """Take in another record."""
        for name, theirs in other.verbs.items():
            ours = self.verbs.setdefault(name, Verb())
            ours.inputs += theirs.inputs
            ours.seconds += theirs.seconds
            ours.longest.take(theirs.longest.amount, theirs.longest.data)
            ours.largest.take(theirs.largest.amount, theirs.largest.data)
        for what, each in other.findings.items():
            self.found(what, each.data, each.count)
        self.kinds += other.kinds

    def save(self, path: Path) -> None:
        draft = path.with_suffix(".draft")
        draft.write_bytes(pickle.dumps(self))
        draft.replace(path)

    @staticmethod
    def load(path: Path) -> Record:
        read = pickle.loads(path.read_bytes()) if path.exists() else Record()  # our own file
        assert isinstance(read, Record)
        return read

    def table(self) -> str:
        """The figures; the largest inputs are run again, each alone in a process of its own."""
        lines = [f"{'verb':20} {'inputs':>9} {'ms each':>8} {'longest':>9} {'largest':>9}"]
        times, sizes = [0.0], [0.0]
        for name, verb in sorted(self.verbs.items()):
            seconds, megabytes = replay(verb.longest.data).seconds, replay(verb.largest.data).megabytes
            times.append(seconds)
            sizes.append(megabytes)
            each = verb.seconds / verb.inputs * 1000
            lines.append(
                f"{name:20} {verb.inputs:9,} {each:8.1f} {seconds:7.3f} s {megabytes:6.1f} MB"
                f"  ({len(verb.longest.data):,} and {len(verb.largest.data):,} bytes)"
            )
        made = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.kinds.items()))
        lines += [f"{'all':20} {self.inputs:9,} {'':8} {max(times):7.3f} s {max(sizes):6.1f} MB", f"({made})"]
        lines += [f"{len(self.findings)} findings"]
        lines += [f"  {each.count:7,} {what}: {each.data[:200]!r}" for what, each in self.findings.items()]
        return "\n".join(lines)


class Pace:
    """When a process saves its record under a name, and whether it goes on."""

    def __init__(self, name: str) -> None:
        self.path, self.last = FOLDER / f"{name}.pickle", time.monotonic()

    def is_due(self) -> bool:
        """Whether ten seconds have gone by."""
        return time.monotonic() > self.last + 10

    def ends(self, record: Record) -> bool:
        """Save the record; whether there is the sign to stop."""
        record.save(self.path)
        self.last = time.monotonic()
        return STOP.exists()


# -- time and memory ---------------------------------------------------------------------------------------


def _peak(*, reset: bool = True) -> float:
    """The most memory held since the last reset, in MB; where Linux does not tell, since the start."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(status.partition("VmHWM:")[2].split(maxsplit=1)[0]) / 1024


@contextmanager
def workshop() -> Iterator[None]:
    """A working directory of its own, in memory where there is one, and limits for this process."""

    def stop(*_: object) -> None:
        raise EndlessError

    signal.signal(signal.SIGVTALRM, stop)
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        os.chdir(folder)
        (Path(folder) / ".git").mkdir()  # no settings from further up
        if sys.platform == "linux":
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limit = pages * resource.getpagesize() + ADDRESSES
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        try:
            yield
        finally:
            os.chdir("/")


@dataclass(frozen=True, slots=True)
class Replay:
    """One input alone: seconds of CPU time and MB above the start."""

    seconds: float
    megabytes: float


def replay(data: bytes) -> Replay:
    """Run one input in a fresh process that has run the same verb before, without instrumentation."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.record"],
        input=data,
        capture_output=True,
        check=False,
        cwd=FOLDER.parent,
    )
    words = done.stdout.split()
    return Replay(float(words[0]), float(words[1])) if len(words) == 2 else Replay(ENDLESS, 0)


def _confirmed(data: bytes) -> str:
    alone = replay(data)
    slow, large = alone.seconds > SECONDS, alone.megabytes > MEGABYTES
    return f"{alone.seconds:.1f} s" if slow else f"{alone.megabytes:.0f} MB" if large else ""


def _main() -> None:
    from tests.fuzz.choices import HEADER

    data = sys.stdin.buffer.read()
    with workshop():
        Record().trial(data[:HEADER] + b'{"train_batch_size": 8, "fp16": {"enabled": "yes"}, "a": 1}', "warm")
        before, start = _peak(), time.process_time()
        from tests.fuzz.targets import one

        signal.setitimer(signal.ITIMER_VIRTUAL, ENDLESS)
        try:
            one(data)
        except Exception as error:
            print(type(error).__name__, file=sys.stderr)
        seconds = time.process_time() - start
        print(seconds, _peak(reset=False) - before)


if __name__ == "__main__":
    _main()
