"""Whether the code that dsconfig cites is there: `python -m tests.parity.citations [PROGRAM [RELEASE]]`.

Rules, keys and advisories name the DeepSpeed file and symbol that they are based on; tables and comments about other
programs do the same. Without arguments, every DeepSpeed citation is looked up in the last release that it is made for.
With a program, its citations are looked up in a release of the package index, the newest by default, and the code of
each is compared with that of the release that was read last (`programs.json`); `--read` records the release as read.
Nothing of a program is imported or run: its wheel is unpacked and parsed.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from dsconfig.core.releases import LATEST, NEVER, NUMBERS, RELEASES
from dsconfig.model.key_description import deepspeed_source_of_key
from dsconfig.model.key_table import iter_keys
from dsconfig.rules import RULES
from dsconfig.rules._advisory_table import load_advisories
from tests.parity import environment
from tests.source import ROOT

READ = Path(__file__).with_name("programs.json")
"""Release of each program that was read last, and a hash of the code of each symbol that we cite."""


class Program(NamedTuple):
    """A program whose code is cited.

    `package` is the folder of its package in the wheel; `platform` and `python` select a wheel that runs elsewhere,
    which is never imported.
    """

    distribution: str
    package: str
    platform: str = ""
    python: str = ""


PROGRAMS: Mapping[str, Program] = {
    "transformers": Program("transformers", "transformers"),
    "accelerate": Program("accelerate", "accelerate"),
    "trl": Program("trl", "trl"),
    "lightning": Program("lightning", "lightning"),
    "ms-swift": Program("ms-swift", "swift"),
    "llamafactory": Program("llamafactory", "llamafactory"),
    "axolotl": Program("axolotl", "axolotl"),
    "peft": Program("peft", "peft"),
    "openrlhf": Program("openrlhf", "openrlhf"),
    # The wheel for macOS has no CUDA libraries: a tenth of the size, and the same Python files.
    "torch": Program("torch", "torch", "macosx_14_0_arm64", "3.12"),
    "verl": Program("verl", "verl"),
}
"""Programs by the name in citations, in lower case."""
WITHOUT_DEEPSPEED = ("verl",)
"""Programs that train with other engines: no code is cited, until a release imports DeepSpeed."""


EXPLAINED = {
    ("runtime/fp16/onebit/", ""): "removed in 0.19.7; other optimizers have keys of the same names",
    (
        "runtime/config.py",
        "get_quantize_training",
    ): "removed in 0.19.7, where other sections of the rule still are",
    ("compression/", ""): "removed in 0.19.7, where other sections of the rule still are",
    ("profiling/config.py", "DeepSpeedFlopsProfilerConfig._initialize"): "another file in 0.3.10",
}
"""Reasons for citations of code that their last release does not have, by the beginning of the file and symbol."""


class Citation(NamedTuple):
    """A file and symbol, and where they are cited; `release` is the last DeepSpeed release that it is made for."""

    program: str
    file: str
    symbol: str
    place: str
    release: str = ""


# What is cited.

_PATH = re.compile(r"(?:[\w-]+/)*[\w-]+\.(?:py|cpp|cu|h)")


def deepspeed_citations() -> Iterator[Citation]:
    """Yield the citations of rules, keys and advisories."""
    for rule in RULES.values():
        last = rule.releases.last
        yield from _of_text(rule.source, rule.code, _newest(0, last))
    for path, info in iter_keys():
        if info.spans:
            yield from _of_text(
                deepspeed_source_of_key(info),
                ".".join(path),
                _newest(0, max(span.last for span in info.spans)),
            )
    for each in load_advisories():
        if "deepspeed" in each.versions and not each.source.startswith("accelerate "):
            yield from _of_text(each.source, each.id, _newest(0, each.releases.last))


def _newest(first: int, last: int) -> str:
    known = [each for each in RELEASES if first <= NUMBERS[each] <= last]
    return LATEST if last >= NEVER else known[-1]


def _of_text(source: str, place: str, release: str) -> Iterator[Citation]:
    """Yield the parts of a source: `a.py:B.c, D, e.cpp:f` cites B.c and D of a.py, and f of e.cpp."""
    file = ""
    for part in re.split(r",\s+", source):
        name, colon, symbol = part.partition(":")
        if _PATH.fullmatch(name):
            file = "" if name.startswith("elastic/") else name  # our own package
            if file:
                yield Citation("deepspeed", file, symbol if colon else "", place, release)
        elif file and re.fullmatch(r"[\w.]+", part):
            yield Citation("deepspeed", file, part, place, release)


_PROGRAM = re.compile(
    rf"\b((?i:{'|'.join(map(re.escape, PROGRAMS))}))(?: v?\d[\d.]*)? ((?:[\w-]+/)*[\w-]+\.py)"
    r"(?:(?::|, )`?([A-Za-z_]\w*(?:\.\w+)*))?"
)


def program_citations(program: str) -> list[Citation]:
    """The citations of another program in the source of the package."""
    cited: dict[tuple[str, str], Citation] = {}
    files = [path for package in ("dsconfig", "elastic") for path in (ROOT / package).rglob("*.py")]
    for path in sorted(files):
        if "_generated" in path.parts:
            continue
        text = path.read_text("utf-8")
        for match in _PROGRAM.finditer(text):
            name, file, symbol = match[1].lower(), match[2], match[3] or ""
            if text[match.end() : match.end() + 2] in ('."', ".'"):  # a prefix of citations
                continue
            if name == program and (not symbol or symbol[0].isupper() or "_" in symbol):
                place = f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}"
                cited.setdefault((file, symbol), Citation(program, file, symbol, place))
    return list(cited.values())


# What is there.


class Sources:
    """The files of a release: a folder, or a wheel."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts

    def text(self, file: str) -> str | None:
        """The text of the file whose path ends with this one; None if there is none."""
        matches = [name for name in self._texts if name == file or name.endswith(f"/{file}")]
        return self._texts[min(matches, key=len)] if matches else None

    def importing(self, package: str) -> list[str]:
        """Files that import a package."""
        statement = re.compile(rf"^\s*(?:import|from)\s+{re.escape(package)}\b", re.MULTILINE)
        return sorted(name for name, text in self._texts.items() if statement.search(text))

    def code(self, file: str, symbol: str) -> str | None:
        """The code of a symbol without docstrings and layout, or of the file; None if it is not there."""
        text = self.text(file)
        if text is None:
            return None
        if not file.endswith(".py"):
            return symbol if symbol.rpartition(":")[2] in text else None
        definitions = _definitions(text)
        if not symbol or symbol in definitions:
            return definitions[symbol] if symbol else text
        # `Class.a, b` cites two methods of the class, and nested functions are cited by their name.
        return next((code for name, code in definitions.items() if name.endswith(f".{symbol}")), None)


@cache
def _definitions(text: str) -> dict[str, str]:
    """Code of every class, function and assignment of a Python file, by qualified name."""
    found: dict[str, str] = {}

    def visit(body: Sequence[ast.stmt], prefix: str) -> None:
        for node in body:
            match node:
                case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                    found.setdefault(f"{prefix}{node.name}", ast.dump(_without_docstrings(node)))
                    visit(node.body, f"{prefix}{node.name}.")
                case ast.Assign() | ast.AnnAssign():
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    for target in targets:
                        if isinstance(target, ast.Name):
                            found.setdefault(f"{prefix}{target.id}", ast.dump(node))
                        elif isinstance(target, ast.Attribute):  # attributes that `__init__` sets
                            owner = prefix.removesuffix("__init__.")
                            found.setdefault(f"{owner}{target.attr}", ast.dump(node))
                case ast.If() | ast.Try() | ast.With() | ast.For() | ast.While():
                    visit(node.body, prefix)
                    visit(getattr(node, "orelse", []), prefix)
                    for handler in getattr(node, "handlers", []):
                        visit(handler.body, prefix)

    visit(ast.parse(text).body, "")
    return found


def _without_docstrings(node: ast.AST) -> ast.AST:
    for each in ast.walk(node):
        body = getattr(each, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                body[0] = ast.Pass()
    return node


@cache
def deepspeed_sources(release: str) -> Sources:
    """The sources of an unpacked DeepSpeed release, by their paths below `deepspeed/` or the root."""
    root = environment.home() / "ds" / release
    texts = {}
    for folder, base in (
        ("deepspeed", root / "deepspeed"),
        ("csrc", root),
        ("op_builder", root),
        ("accelerator", root),
    ):
        for path in (root / folder).rglob("*"):
            if path.suffix in (".py", ".cpp", ".cu", ".h"):
                texts[path.relative_to(base).as_posix()] = path.read_text("utf-8", "replace")
    return Sources(texts)


def program_sources(program: str, release: str, folder: Path) -> Sources:
    """The Python files of a program's wheel, which pip downloads without its requirements."""
    distribution, package, platform, python = PROGRAMS[program]
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "-q"]
    # A source distribution would run the program's own code to tell its name.
    command += [
        "--only-binary",
        ":all:",
        *(["--platform", platform, "--python-version", python] if platform else []),
    ]
    pattern = f"{distribution.replace('-', '_')}-{release}-*.whl"
    if not any(folder.glob(pattern)):
        subprocess.run([*command, "--dest", str(folder), f"{distribution}=={release}"], check=True)
    (wheel,) = folder.glob(pattern)
    with zipfile.ZipFile(wheel) as archive:
        # Wheels with a library keep their package in `NAME.data/purelib` or directly in the archive.
        inside = re.compile(rf"(?:[^/]+\.data/(?:pure|plat)lib/)?{re.escape(package)}/(.+\.py)")
        matches = [match for match in map(inside.fullmatch, archive.namelist()) if match]
        return Sources({each[1]: archive.read(each[0]).decode("utf-8", "replace") for each in matches})


# What differs.


def missing_in_deepspeed(citations: Sequence[Citation]) -> list[Citation]:
    """The citations that the last release they are made for does not have, unless that is explained."""
    unexplained = (each for each in citations if not is_explained(each))
    return [
        each for each in unexplained if deepspeed_sources(each.release).code(each.file, each.symbol) is None
    ]


def is_explained(citation: Citation) -> bool:
    """Whether it is known why the last release does not have what is cited."""
    return any(
        citation.file.startswith(file) and symbol in ("", citation.symbol) for file, symbol in EXPLAINED
    )


def fingerprints(citations: Sequence[Citation], sources: Sources) -> dict[str, str]:
    """A hash of the code of each citation that is there."""
    hashes = {}
    for each in citations:
        code = sources.code(each.file, each.symbol)
        if code is not None:
            hashes[f"{each.file}:{each.symbol}"] = hashlib.sha256(code.encode()).hexdigest()[:16]
    return hashes


def changed_in_deepspeed(release: str, before: str = LATEST) -> list[Citation]:
    """The citations for the newest known release whose code another release changes or does not have."""
    old, new = deepspeed_sources(before), deepspeed_sources(release)
    current = (each for each in deepspeed_citations() if each.release == LATEST)
    return [each for each in current if old.code(each.file, each.symbol) != new.code(each.file, each.symbol)]


def changes(program: str, release: str, sources: Sources) -> list[str]:
    """What a release changes of the code that is cited, one line each."""
    citations = program_citations(program)
    now = fingerprints(citations, sources)
    before: dict[str, str] = read_releases().get(program, {}).get("code", {})
    lines = []
    for each in citations:
        name = f"{each.file}:{each.symbol}"
        if name not in now:
            lines.append(f"{program} {release} has no {name.rstrip(':')} ({each.place})")
        elif name in before and before[name] != now[name]:
            lines.append(f"{program} {release} changes {name.rstrip(':')} ({each.place})")
        elif name not in before:
            lines.append(f"{name.rstrip(':')} is cited and not recorded ({each.place})")
    if program in WITHOUT_DEEPSPEED:
        lines += [
            f"{program} {release} imports DeepSpeed ({file})" for file in sources.importing("deepspeed")
        ]
    return lines


def read_releases() -> dict[str, Any]:
    """The recorded releases by program."""
    return json.loads(READ.read_text("utf-8")) if READ.exists() else {}


def newest(distribution: str) -> str:
    """The newest release on the package index, pre-releases aside."""
    command = [sys.executable, "-m", "pip", "index", "versions", distribution, "--disable-pip-version-check"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    match = re.match(rf"{re.escape(distribution)} \(([\w.]+)\)", output)
    assert match is not None, output
    return match[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Look up the citations; 0 if all are there and unchanged."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.parity.citations", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "program", nargs="?", choices=["deepspeed", *PROGRAMS, "all"], help="default: deepspeed"
    )
    parser.add_argument("release", nargs="?", help="default: the newest")
    parser.add_argument("--read", action="store_true", help="record the release as read")
    options = parser.parse_args(arguments)
    if options.program in (None, "deepspeed"):
        return _deepspeed(options.release)
    programs = list(PROGRAMS) if options.program == "all" else [options.program]
    return max(_program(each, options.release, is_read=options.read) for each in programs)


def _deepspeed(release: str | None) -> int:
    """Look up the citations, or list those whose code a newer release changes."""
    citations = list(deepspeed_citations())
    if release is not None:
        changed = changed_in_deepspeed(release)
        names = sorted({f"{each.file}:{each.symbol}" for each in changed})
        for name in names:
            places = sorted({each.place for each in changed if f"{each.file}:{each.symbol}" == name})
            print(f"DeepSpeed {release} changes {name} ({', '.join(places[:6])})")
        print(f"citations: {release} changes {len(names)} symbols since {LATEST}")
        return 1 if names else 0
    try:
        environment.build(sorted({each.release for each in citations}, key=environment.order))
    except (environment.BuildError, OSError) as error:
        sys.exit(f"parity: {error}")
    missing = missing_in_deepspeed(citations)
    for each in missing:
        print(f"DeepSpeed {each.release} has no {each.file}:{each.symbol} ({each.place})")
    print(f"citations: {len(citations)} of DeepSpeed, {len(missing)} missing")
    return 1 if missing else 0


def _program(program: str, release: str | None, *, is_read: bool) -> int:
    release = release or newest(PROGRAMS[program].distribution)
    recorded = read_releases().get(program, {}).get("release")
    try:
        sources = program_sources(program, release, environment.home() / "wheels")
    except subprocess.CalledProcessError:
        print(f"{program} {release} (read: {recorded}): not read, since pip cannot download its wheel")
        return 1
    lines = changes(program, release, sources)
    print(
        f"{program} {release} (read: {recorded}): {len(lines)} of {len(program_citations(program))} citations differ"
    )
    print("".join(f"  {line}\n" for line in lines), end="")
    if is_read:
        record = {"release": release, "code": fingerprints(program_citations(program), sources)}
        READ.write_text(
            json.dumps(read_releases() | {program: record}, indent=2, sort_keys=True) + "\n", "utf-8"
        )
        return 0
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
