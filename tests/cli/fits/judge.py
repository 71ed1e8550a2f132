"""Invariants of the answer of `dsconfig memory --fit -o` and of the file that it writes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dsconfig.document import read_file
from tests.cli.conftest import Result
from tests.cli.fits.trials import ARGUMENTS, MICRO, STEPS, TRAIN, Config, Trial, put

SCRIPT = "checkpoint activations in the script", "build the model in shards (zero.Init) in the script"


class BrokenError(Exception):
    """Something that has to hold does not."""


def hold(what: str, condition: object) -> None:
    if not condition:
        raise BrokenError(what)


Run = Callable[..., Result]


def judge(trial: Trial, run: Run) -> str:
    """Try it in this folder, and return how it ended; `BrokenError` says what does not hold."""
    Path(trial.name).write_bytes(trial.text.encode())
    out = "out" + Path(trial.name).suffix
    arguments = ["memory", trial.name, *trial.argv, *words(trial, trial.set, trial.micro, trial.arguments)]
    before = run(*arguments, "--output-format", "json")
    limits = ["--fit", "1GiB"]
    if before.code == 0:
        estimate = json.loads(before.out)
        limits = ["--fit", f"{int(max(estimate['rank']['bound'].values()) * trial.room)}B"]
        if trial.host is not None:
            limits += ["--host", f"{int(max(estimate['host']['bound'].values()) * trial.host)}B"]
    fit = run(*arguments, *limits, "-o", out, "--output-format", "json")
    hold(f"an internal error: {fit.err}", "internal error" not in fit.err and "Traceback" not in fit.err)
    hold("the config is as it was", Path(trial.name).read_bytes() == trial.text.encode())
    there = {name for name in os.listdir() if not name.startswith(".git")} - {trial.name, "args.json"}
    hold(f"code {before.code} before, {fit.code} then", trial.launch or before.code in (0, fit.code))
    if before.code:
        hold(f"something written where it is refused: {there}", not there)
        return f"refused: {before.err}"
    if trial.launch or "cannot be changed" in fit.err:
        hold(f"ends with {fit.code}: {fit.err}", fit.code == 2 and not there and fit.err.count("\n") == 1)
        hold("it fits or not without -o", run(*arguments, *limits).code in (0, 1))
        return f"not written: {fit.err}"
    hold(f"ends with {fit.code}: {fit.err}", fit.code in (0, 1))
    answer = json.loads(fit.out)["fit"]
    hold("the exit code says whether it fits", fit.code == (0 if answer["fits"] else 1))
    hold(f"files: {there}", there == ({out} if answer["fits"] else set()))
    to_stdout = run(*arguments, *limits, "-o", "-" if answer["fits"] else out)
    hold("the text is told the same", [each["told"] for each in answer["changes"]] == list(steps(to_stdout)))
    if not answer["fits"]:
        return "does not fit"
    hold("`-o -` writes another text", to_stdout.out == Path(out).read_bytes().decode())
    _judge_file(trial, out, answer)
    _judge_again(trial, out, answer, limits, run)
    _judge_check(trial, out, answer, run)
    return "with changes" if answer["changes"] else "as it is"


def steps(output: Result) -> Iterator[str]:
    """The changes that are told as text."""
    for line in (output.err if output.code == 0 else output.out).splitlines():
        if (change := re.fullmatch(r"(.*): up to [\d.]+ GiB(, host up to [\d.]+ GiB)?", line)) is not None:
            yield change[1]


def words(trial: Trial, values: Config, micro: int | None, arguments: Config | None) -> list[str]:
    """The arguments of a command."""
    options = [f"--set={key}={json.dumps(value)}" for key, value in values.items()]
    options += [] if micro is None else ["--micro-batch", str(micro)]
    if arguments is not None:
        Path("args.json").write_text(json.dumps(arguments))
        options += ["--training-args", "args.json"]
    return options


def _judge_file(trial: Trial, out: str, answer: Config) -> None:
    """The printed changes are in the file, and the rest of it is unchanged."""
    document = read_file(out)
    kinds = {problem.kind for problem in read_file(trial.name).problems}
    hold(f"problems in the text: {document.problems}", {each.kind for each in document.problems} <= kinds)
    value = document.value()
    for change in answer["changes"]:
        for part in parts_of(change["told"]):
            named, key, value_text = part
            if named == "config":
                hold(
                    f"`{key}` is {at(value, key)!r}, told as {value_text!r}",
                    _last(answer, key, value_text, value),
                )
            elif named == "argument":
                hold(f"argument {key} is {value_text}", change["arguments"].get(key) == value_text)
            else:
                hold(f"{key} is told", change["checkpointing"] or change["zero_init"])
    changed = {key for change in answer["changes"] for key in change["set"]} | trial.set.keys()
    changed |= {MICRO, STEPS, TRAIN} if trial.micro else set()
    for key in answer["removed"]:
        hold(f"`{key}` is there", at(value, key) == "nothing there")
    changed |= {*answer["removed"]}
    original = read_file(trial.name).value()
    hold("something else is changed", rest(original, changed) == rest(value, changed))
    hold("the order is kept", in_order(original, value))
    there = {line.replace(",", "").strip() for line in document.text.splitlines()}
    gone = [line for line in kept_lines(trial.text, changed) if line not in there]
    hold(f"lines are gone: {gone}", not gone)
    comments = re.findall(r"note \d+\.", trial.text)
    left = re.findall(r"note \d+\.", document.text)
    few = len(answer["removed"]) * 2  # those in the lines of what is taken out
    hold(f"comments: {comments} became {left}", left == [each for each in comments if each in left])
    hold(f"comments: {comments} became {left}", len(left) >= len(comments) - few)


def _last(answer: Config, key: str, text: object, value: object) -> bool:
    """Whether the file says what is told, or what a later line says of the same key."""
    later = [
        part[2]
        for change in answer["changes"]
        for part in parts_of(change["told"])
        if part[0] == "config" and part[1] == key
    ]
    actual = at(value, key)
    if isinstance(actual, dict) and isinstance(text, dict):  # what is in it may be told in a later line
        return actual.keys() >= text.keys()
    return bool(later and actual == later[-1])


def parts_of(message: str) -> Iterator[tuple[str, str, Any]]:
    """Target of a printed change: the config, an argument, or the script."""
    rest, decoder = message, json.JSONDecoder()
    while rest:
        if script := next((each for each in SCRIPT if rest.startswith(each)), None):
            yield "script", script, None
            rest = rest[len(script) :]
        else:
            match = re.match(r"(?:set )?`([^`]+)` to ", rest)
            hold(f"nothing known is told: {rest!r} in {message!r}", match)
            assert match is not None
            value, end = decoder.raw_decode(rest, match.end())
            yield (
                "argument" if match[1] in ARGUMENTS.values() and _by_argument(rest) else "config",
                match[1],
                value,
            )
            rest = rest[end:]
            rest = re.sub(r"^ in the (training arguments|script)", "", rest)
        rest = rest.removeprefix(" and ")


def _by_argument(rest: str) -> bool:
    """Whether the value that is told next stands in the arguments."""
    for match in re.finditer(r" in the (training arguments|script)|set `", rest):
        if match.start():
            return not match[0].startswith("set")
    return False


def at(value: object, key: str) -> object:
    for part in key.split("."):
        value = value.get(part, "nothing there") if isinstance(value, dict) else "nothing there"
    return value


def rest(value: object, changed: set[str], prefix: str = "") -> object:
    """A config without keys that are changed, and without sections that are empty then."""
    if not isinstance(value, dict) or prefix.rstrip(".") in changed:
        return value
    kept = {
        key: rest(each, changed, f"{prefix}{key}.")
        for key, each in value.items()
        if f"{prefix}{key}" not in changed
    }
    inside = [each for each in changed if each.startswith(prefix)]
    return {
        key: each
        for key, each in kept.items()
        if each or not any(x.startswith(f"{prefix}{key}.") for x in inside)
    }


def in_order(before: object, after: object) -> bool:
    """Whether the keys of both stand in the same order in both."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return True
    both = [key for key in before if key in after]
    return both == [key for key in after if key in before] and all(
        in_order(before[key], after[key]) for key in both
    )


def kept_lines(text: str, changed: set[str]) -> Iterator[str]:
    """Lines with a value of their own which nothing changes."""
    names = {part for key in changed for part in key.split(".")}
    for line in text.splitlines():
        match = re.match(r"""\s*["']?([\w$]+)["']?\s*:\s*[^\s{[]""", line)
        if match and match[1] not in names | {"device", "pin_memory"} and line.count(":") == 1:
            yield line.replace(",", "").strip()


def _judge_again(trial: Trial, out: str, answer: Config, limits: list[str], run: Run) -> None:
    """Asked again, less what the answer has done."""
    values, micro, arguments, more = dict(trial.set), trial.micro, trial.arguments, list[str]()
    for change in answer["changes"]:
        for key in change["set"]:
            values = {
                old: each for old, each in values.items() if old != key and not old.startswith(f"{key}.")
            }
            micro = None if key == MICRO else micro
        if change["arguments"]:
            arguments, micro = {**(arguments or {}), **change["arguments"]}, None
        more += ["--checkpointing"] * change["checkpointing"] + ["--zero-init"] * change["zero_init"]
    more += ["--consumer", answer["consumer"]] if answer["consumer"] else []
    argv = ["memory", out, *trial.argv, *words(trial, values, micro, arguments), *more]
    again = run(*argv, *limits)
    size = re.escape(_verdict(run, argv, limits))
    hold(
        f"asked again: {again.code} {again.out} {again.err}",
        again.code == 0 and re.fullmatch(rf"fits {size} without changes\n", again.out),
    )


def _verdict(run: Run, argv: list[str], limits: list[str]) -> str:
    from dsconfig.resolve.memory_output import _format_bytes

    return _format_bytes(int(limits[1].removesuffix("B")))


def _judge_check(trial: Trial, out: str, answer: Config, run: Run) -> None:
    """`check` finds nothing worse in the new text."""
    under = [word for word in trial.argv if word in ("deepspeed", "transformers", "accelerate")]
    consumer = under[:1] or ([answer["consumer"]] if answer["consumer"] else [])
    options = [*(["--consumer", *consumer] if consumer else [])]
    at_world = trial.argv[trial.argv.index("--world-size") :][:4]

    def found(name: str) -> dict[tuple[str, str], str]:
        done = run("check", name, *at_world, *options, "--output-format", "json")
        diagnostics = json.loads(done.out)["files"][0]["diagnostics"]
        return {
            (each["code"], each["severity"]): f"{each['path']}: {each['message']}" for each in diagnostics
        }

    before, after = found(trial.name), found(out)
    if trial.set or trial.micro:  # what they bring is not the answer's
        Path("set.json").write_text(json.dumps(put(read_file(trial.name).value(), trial)))
        before |= found("set.json")
    worse = [
        f"{key}: {messages}"
        for key, messages in after.items()
        if key not in before
        and key[1] in ("error", "warning")
        # Stage 3 asks whether weights are gathered, for which there may be no room.
        and key[0] != "DSC453"
    ]
    hold(f"worse: {worse}", not worse)
