"""Who reads a config, as the scripts and launch files of its repository say that name it.

Nobody knows the working directory of a job, so a name is held against the end of the config's path: what a
script writes as `configs/z3.json` is any file `z3.json` in a folder `configs`, the nearest first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from dsconfig.consumers.boundary import may_read, root
from dsconfig.core.file_bytes import contents
from dsconfig.core.json_types import NamedTuple
from dsconfig.job.consumer import Reader
from dsconfig.launch.budget import FOLDER, Budget, SpentError
from dsconfig.launch.formats import SCRIPTS
from dsconfig.launch.repository import edition, texts, tick

_LEADS = r"[\s\\=,(\"']*(?:[rf](?=[\"'])|str\()?[\"']?(?:\$\{(?P<unset>\w+):-)?[\"']?(?:\./)*"
"""What may stand between a flag or key and the path that it names, or that stands for an unset variable."""
_WORDS = r"(?:(?!\.(?:json|py)\b)(?:[^\n;&|\\]|\\(?!\n)|\\\n|\n\s*(?:- |[\"'])))*"
"""What may stand between `elastic run` and its config, in a shell, or in a list of JSON or YAML.

No two alternatives begin alike: `re` would try every way to divide the words among them.
"""
_ELASTIC = rf"\bdsconfig\W+elastic\W+run\b{_WORDS}"
_RENDEZVOUS = r"\brdzv[-_]conf\b(?:(?!\brdzv[-_]conf\b)[^\n])*[ =,\"']ds_config=[\"']?"
_VALUE = r"(?P<words>[\w.]*)\$?\{?(?P<value>[\w.]*)"
"""The variable that stands where a path could."""
_KEYS = (
    (_ELASTIC, "elastic", "`dsconfig elastic run`"),
    (rf"(?:{_RENDEZVOUS}|\bDSCONFIG_RDZV_DS_CONFIG=[\"']?)", "elastic", "`--rdzv-conf ds_config=`"),
    (rf"deepspeed_config_file[\"']?(?:\s*:)?{_LEADS}", "accelerate", "`deepspeed_config_file`"),
    (rf"--deepspeed_config\b{_LEADS}", "deepspeed", "`--deepspeed_config`"),
    (rf"--(?:training_args\.)?deepspeed\b{_LEADS}", "transformers", "`--deepspeed`"),
    (rf"\bhf_ds_config\b{_LEADS}", "accelerate", "`DeepSpeedPlugin`"),
    (rf"DeepSpeedStrategy\([^()]*?\bconfig{_LEADS}", "lightning", "`DeepSpeedStrategy`"),
    (rf"\bdeepspeed[\"']?\s*[=,(]{_LEADS}", "transformers", "`deepspeed=`"),
)
"""What stands before a path, or the variable that holds it, and who reads the file then.

`re` compiles these where there is a text to search: beside most configs there is none. Each takes steps in
proportion to what it is held against, or to its square where that is the `_BEFORE` characters before a path.
"""
_YAML_KEY = (
    r"(?m)(?:^[ \t]*|[{,]\s*)[\"']?deepspeed[\"']?[ \t]*:[ \t]*[\"']?(?:\./)*",
    "transformers",
    "`deepspeed:`",
)
"""The key of a YAML file, of which a variable's value is no path."""
_VARIABLE = rf"\b([A-Za-z_]\w*)(?:: *\w+)? *[:=]{_LEADS}$"
_PYTHON = (
    (r"\bDeepSpeedStrategy\b", "lightning", "`DeepSpeedStrategy`"),
    (r"\bdeepspeed\.(?:initialize|init_inference)\b", "deepspeed", "`deepspeed.initialize`"),
    (r"\b(?:HfArgumentParser|\w*TrainingArguments)\b", "transformers", "`TrainingArguments`"),
    (r"\b(?:DeepSpeedPlugin|Accelerator)\(", "accelerate", "`Accelerator`"),
)
"""What a program does that names the file, the nearest to DeepSpeed first."""
_BEFORE = 1000
"""Characters before a path in which it is said what reads it: a manifest has a line for each word."""
_OWN_LOOP = r"\bdeepspeed\.initialize\b"
_TRAINER = r"TrainingArguments|HfArgumentParser|Trainer\("
_OPENED, _TRAINED = r"\bopen\((?:\w+\.)+deepspeed\b", r"TrainingArguments|Trainer\("
"""A program that opens the file of its own argument `deepspeed`; what may read the file after all."""
_SMALL = 50
"""Texts that speak of DeepSpeed: a repository with more holds several projects."""
LAUNCHES = (".sh", ".bash", ".slurm", ".sbatch", ".yaml", ".yml", ".json")
"""Ends of the names of what gives a job its arguments."""
_FLAGS = ("`--deepspeed`", "`--deepspeed_config`")
_PATH = r"[\w./-]+"
_PROGRAM = r"[\w./-]+\.py\b"
_COMMAND_LENGTH = 2000
"""Characters before a flag among which its program is."""


_HANDED_ON = rb"\bconfig(?:_params)?\s*=\s*(?:\w+\.)+deepspeed\b"


def own_loop(launch: str) -> str | None:
    """The program beside a launch file that hands its argument `deepspeed` on to DeepSpeed; None: no program.

    It has the arguments of a Trainer, which would compare them with the config, and no Trainer.
    """
    if launch.startswith("<") or not launch:
        return None
    folder = os.path.dirname(os.path.abspath(launch))
    top = root(folder)
    home = folder if top in (None, folder) else os.path.dirname(folder)
    for path, data in texts(top or folder, os.path.abspath(launch), deep=top is not None):
        near = path.startswith(os.path.join(home, ""))
        calls = near and path.endswith(".py") and b"deepspeed.initialize" in data
        if calls and re.search(_HANDED_ON, data):
            return path
    return None


class Mention(NamedTuple):
    """A place that names the config: how sure it is, how near, who reads it then, and where it stands."""

    rank: int
    """3: a flag or key; 2: a program; 1: the same in a text for people; 0: a program that names no file."""
    near: int
    reader: str
    why: str
    script: str


def reader_of(name: str, content: Reader) -> Reader | None:
    """The reader of the config at a path, as its repository says; None where nothing there says so.

    Where nothing names it and its `content` leaves doubt, programs of a small repository decide that all read
    configs in one way which the content alone does not show. None, too, where `takes_too_much` holds.
    """
    if name.startswith("<") or not name:
        return None
    path, top, deep = _whereabouts(name)
    known = _known(path, top, deep, edition(path))
    if known is None:
        return None
    best = max(known, key=_weight, default=None)
    if (
        best is not None
        and best.reader == "accelerate"
        and (trainer := _trainer(best.script, top, deep=deep))
    ):
        best = best._replace(reader="transformers", why=f"{best.why}, beside the Trainer of {trainer}")
    if best is None and content.likely:
        best = _of_programs(path, top, content.name, deep=deep)
    if best is None:
        return None
    launch = best.why.endswith((".yaml", ".yml", ".json"))
    return Reader(best.reader, best.why, "launch file" if launch else "script", likely=best.rank == 0)


def _weight(found: Mention) -> tuple[int, int, bool]:
    """How much a place counts: a Trainer that names the same file as a launch file of Accelerate reads it."""
    return found.rank, found.near, found.reader == "transformers"


def _trainer(launch: str, top: str, *, deep: bool) -> str | None:
    """The program beside a launch file of Accelerate that has a Trainer, which fills what a loop does not.

    Source: transformers trainer.py, propagate_args_to_deepspeed. None where any has a loop of its own.
    """
    home = os.path.join(os.path.dirname(launch), "")
    found = None
    for path, data in () if launch.endswith(SCRIPTS) else texts(top, launch, deep=deep):
        if path.startswith(home) and path.endswith(".py"):
            if b"Accelerator(" in data:
                return None
            if b"TrainingArguments(" in data:
                found = found or os.path.relpath(path, top)
    return found


def launchers_of(name: str) -> tuple[str, ...]:
    """The paths of the scripts and launch files whose flags or keys name the config at a path.

    None of them where `takes_too_much` says that it cannot be found out.
    """
    path, top, deep = _whereabouts(name)
    found = {each.script: None for each in _known(path, top, deep, edition(path)) or () if each.rank == 3}
    return tuple(script for script in found if script.endswith(LAUNCHES))


def takes_too_much(name: str) -> bool:
    """Whether the texts around the config at a path name it so often that it is not known who reads it."""
    path, top, deep = _whereabouts(name)
    return _known(path, top, deep, edition(path)) is None


def _whereabouts(name: str) -> tuple[str, str, bool]:
    """The whole path of a config, the root of its repository, and whether it has one."""
    path = os.path.abspath(name)
    folder = os.path.dirname(path)
    top = root(folder)
    return path, top or folder, top is not None


@lru_cache(maxsize=8)
def _known(path: str, top: str, deep: bool, _: tuple[int, ...]) -> tuple[Mention, ...] | None:
    """Whatever names the config; None where that takes too much work to find."""
    known = _named(texts(top, path, deep=deep), os.path.basename(path), top, tick())
    return None if known is None else tuple(_of_path(known, path, top))


def _of_path(known: tuple[_Named, ...], path: str, top: str) -> Iterator[Mention]:
    """The places that name the config at a path, of those that name one with its last part."""
    for each in known:
        if each.script != path and may_be(each.written, path):
            near = len(os.path.commonpath([path, each.script]))
            doc = each.script.endswith((".md", ".ipynb"))
            told = f"{each.why} in {os.path.relpath(each.script, top)}"
            yield Mention(1 if doc else each.rank, near, each.reader, told, each.script)


class _Named(NamedTuple):
    """A place that names a config with some last part: as it is written, and as a `Mention` has it."""

    script: str
    written: str
    rank: int
    reader: str
    why: str


@lru_cache(maxsize=8)
def _named(known: tuple[tuple[str, bytes], ...], base: str, top: str, _: int) -> tuple[_Named, ...] | None:
    """The places in texts that name a config with this last part, once for all such configs of a repository.

    None where they take more work than may be spent on a folder.
    """
    try:
        return tuple(_search(known, base, top))
    except SpentError:
        return None


def _search(known: tuple[tuple[str, bytes], ...], base: str, top: str) -> Iterator[_Named]:
    budget = Budget(FOLDER)
    for script, data in known:
        if base.encode() not in data:
            continue
        text = data.decode("latin-1").replace('\\"', '"')
        used = _Used(text, budget)
        for at, end in islice(_places(text, base), _MOST):
            start, line = _start(text, at)
            if _is_remark(line):
                continue
            budget.spend(_SEARCH)
            if (found := _at(text, start, script, top, used)) is not None:
                yield _Named(script, text[start:end], *found)


_MOST = 200
"""So many places of one text tell who reads the file; nobody names it more often."""
_SEARCH = 1000
"""Steps that one of them counts as."""
_LETTERS = r"[^\s\"'=`(),;:\[\]{}<>|]*"
"""Of a path. It is searched backwards from the name: a word may be the data of a picture in a notebook."""


def _places(text: str, base: str) -> Iterator[tuple[int, int]]:
    """Where paths with this last part begin and end."""
    letters, at = re.compile(_LETTERS), text.find(base)
    while at >= 0:
        end = at + len(base)
        if not re.match(r"[\w.-]", text[end : end + 1]):
            before = letters.match(text[max(0, at - _BEFORE) : at][::-1])
            yield at - (before.end() if before else 0), end
        at = text.find(base, end)


def _start(text: str, at: int) -> tuple[int, str]:
    """Where a path begins of which the last word stands here, and the line before it: it may have spaces."""
    first = max(0, at - _BEFORE)
    line = text[max(first, text.rfind("\n", first, at) + 1) : at]
    if (quoted := re.search(_SPACED, line)) is not None:
        at -= len(line) - quoted.start(1)
    return at, line


_SPACED = r"[\"']((?:/|\./|~/)(?:(?! -)[^\"'\n])*)$"


def _is_remark(line: str) -> bool:
    """Whether a comment speaks of a flag, and of no command that has it."""
    return line.lstrip().startswith("#") and "--" in line and not re.search(_COMMAND, line)


_COMMAND = r"\.py\b|(?<!-)\b(?:deepspeed|torchrun|accelerate|python3?)\s"


def may_be(written: str, path: str) -> bool:
    """Whether a name that a script writes can be that of the config."""
    parts = [part for part in written.lstrip("-").split("/") if part not in ("", ".", "..")]
    own = path.split(os.sep)
    if parts[-1] != own[-1]:
        return False
    for part, real in zip(reversed(parts[:-1]), reversed(own[:-1]), strict=False):
        if part != real:
            return "$" in written or written.startswith("/")
    return True


class _Used:
    """The variables of a text that stand where a config's path could, each with who reads the config then."""

    def __init__(self, text: str, budget: Budget) -> None:
        self._text, self._budget = text, budget
        self._found: dict[str, tuple[int, str, str]] | None = None

    def find(self, name: str) -> tuple[int, str, str] | None:
        """Where a variable is used so for the first time, the reader, and why."""
        if self._found is None:
            self._budget.spend(len(self._text) // 2)
            self._found = {}
            for at, found, reader, why in self._all():
                self._found.setdefault(found, (at, reader, why))
        return self._found.get(name)

    def _all(self) -> Iterator[tuple[int, str, str, str]]:
        for pattern, reader, why in _KEYS:
            if pattern == _ELASTIC:
                for match in re.finditer(pattern, self._text):
                    _, _, _, *words = re.findall(r"\w+", match[0])
                    yield from ((match.start(), word, reader, why) for word in words)
                continue
            for match in re.finditer(pattern + _VALUE, self._text):
                for word in ".".join(filter(None, match.groups())).split("."):
                    yield match.start(), word, reader, why


def _at(text: str, start: int, script: str, top: str, used: _Used) -> tuple[int, str, str] | None:
    """Who reads the config that is named there: rank, reader, reason."""
    before = text[max(0, start - _BEFORE) : start]
    for pattern, reader, why in (*_KEYS, _YAML_KEY):
        if match := re.search(rf"{pattern}$", before):
            at = start - len(before) + match.start()
            return 3, _of_program(text, at, script, top, why) or reader, why
    if (match := re.search(_VARIABLE, before)) and (found := used.find(match[1])):
        at, reader, why = found
        return 3, _of_program(text, at, script, top, why) or reader, why
    if script.endswith((".py", ".ipynb")):
        for pattern, reader, why in _PYTHON:
            if re.search(pattern, text):
                return 2, reader, why
    return None


def _of_program(text: str, end: int, script: str, top: str, why: str) -> str | None:
    """Who reads the file of a command's flag, where its program is found and leaves no doubt."""
    words = re.findall(_PATH, text[max(0, end - _COMMAND_LENGTH) : end]) if why in _FLAGS else []
    programs = (re.match(_PROGRAM, word) for word in reversed(words) if ".py" in word)
    program = next(filter(None, programs), None)
    if program is None:
        return None
    folder = script
    while folder != top and len(folder) > len(top):
        folder = os.path.dirname(folder)
        path = os.path.join(folder, program[0])
        if may_read(path, script) and (read := _loop(path, tick())) is not None:
            return read or None
    return None


@lru_cache(maxsize=16)
def _loop(path: str, _: int) -> str | None:
    """Who reads a program's config; empty where it leaves doubt, None where there is no such program."""
    try:
        program = contents(path).decode("latin-1")
    except OSError:
        return None
    if re.search(_OPENED, program) and not re.search(_TRAINED, program):
        return "deepspeed"
    loop, trainer = bool(re.search(_OWN_LOOP, program)), bool(re.search(_TRAINER, program))
    return "" if loop == trainer else "deepspeed" if loop else "transformers"


def _of_programs(path: str, top: str, content: str, *, deep: bool) -> Mention | None:
    """Who reads configs in this repository, where all of its programs that say so agree."""
    found: dict[tuple[str, str], str] = {}
    known = texts(top, path, deep=deep)
    for script, data in known if len(known) <= _SMALL else ():
        if script.endswith(".py"):
            text = data.decode("latin-1")
            found |= {(reader, why): script for pattern, reader, why in _PYTHON if re.search(pattern, text)}
    if len({reader for reader, _ in found}) != 1:
        return None
    ((reader, why), script), *_ = found.items()
    if reader != "lightning" and (reader != "deepspeed" or content == "deepspeed"):
        return None
    return Mention(0, 0, reader, f"{why} in {os.path.relpath(script, top)}", script)
