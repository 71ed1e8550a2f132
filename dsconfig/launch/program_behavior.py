"""Behavior of programs around DeepSpeed: the keys they write into a config, and the errors they raise."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from dsconfig.consumers import HUGGING_FACE
from dsconfig.consumers.consumer import BY_NAME
from dsconfig.consumers.consumer_versions import does
from dsconfig.core.file_access import root
from dsconfig.core.json_types import Json, NamedTuple, at
from dsconfig.document import Document
from dsconfig.job.detect_consumer import Overwrite
from dsconfig.launch.config_references import may_be
from dsconfig.launch.format_table import SCRIPT
from dsconfig.launch.repository import edition, texts, tick

if TYPE_CHECKING:
    from dsconfig.launch.launched_job import Job

# What a program of the repository writes into a config before DeepSpeed sees it.
#
# A value that only the run knows is often put in between the reading of the file and
# `deepspeed.initialize`: the micro batch of an argument, a length that the data tell. What DeepSpeed gets
# is whole, though the file is not.

_BUILDS = re.compile(
    rb"deepspeed\.init|\bDeepSpeed(?:Plugin|Strategy|Config)\b|\bHf\w*DeepSpeedConfig\b"
    rb"|\bimport\s[^\n]*\binitialize\b|\bdeepspeed\s*=|\bdeepspeed_plugin\b"
)
_LONGEST = 300
"""Characters of the folders of a name."""
_MOST = 20
"""Programs that are looked into."""
ROOT = "*"
_HOMES = ("deepspeed", "deepspeed_config", "ds_config", "ds")
"""Keys of larger configs under which one of DeepSpeed stands."""


def overwrite_of(name: str, key: str, config: Json) -> Overwrite | None:
    """What a program of the repository does to a key of the config at a path; None: nothing that is known.

    Args:
        name: the path of the config.
        key: the dotted path of the key.
        config: what the file holds.
    """
    for each in overwrites(name):
        if each.key == ROOT or f"{key}.".startswith(f"{each.key}."):
            if not each.absent_only or _value(config, key) in (None, "auto"):
                return each
        elif each.key.endswith(f".{ROOT}") and key.startswith(each.key.removesuffix(ROOT)):
            return each
    return None


def _value(config: Json, key: str) -> Json:
    for part in key.split("."):
        config = config.get(part) if isinstance(config, Mapping) else None
    return config if isinstance(config, str | int | float) else None if config is None else "object"


def overwrites(name: str) -> tuple[Overwrite, ...]:
    """Every key that programs which read the config at a path write into it, as far as they show that.

    A key that is `*`, or ends with it, stands for those that only the run shows.
    """
    if name.startswith("<") or not name:
        return ()
    path = os.path.abspath(name)
    return _overwrites(path, edition(path))


@lru_cache(maxsize=16)
def _overwrites(path: str, _: tuple[int, ...]) -> tuple[Overwrite, ...]:
    folder = os.path.dirname(path)
    top = root(folder)
    known = texts(top or folder, path, deep=top is not None)
    found = (
        each
        for program in _programs(known)
        if _reads(program, path, known)
        for each in _written_by(program, tick())
    )
    return tuple({(each.key, each.absent_only): each for each in reversed(list(found))}.values())[::-1]


@lru_cache(maxsize=4)
def _programs(known: tuple[tuple[str, bytes], ...]) -> tuple[str, ...]:
    """The programs among the texts of a repository that hand a config over to DeepSpeed."""
    named = [each for each in known if each[0].endswith(".py") and _BUILDS.search(each[1])][:_MOST]
    if not named:
        return ()
    from dsconfig.launch.program_config import hands_over
    from dsconfig.launch.python_source import parse

    parsed = (parse(program, data) for program, data in named)
    return tuple(module.path for module in parsed if module is not None and hands_over(module))


@lru_cache(maxsize=_MOST)
def _written_by(program: str, _: int) -> tuple[Overwrite, ...]:
    try:
        return tuple(_writes(program))
    except RecursionError:  # deeper than anybody writes
        return ()


def _writes(program: str) -> Iterator[Overwrite]:
    from dsconfig.launch.program_config import ANY_KEY, writes_in
    from dsconfig.launch.python_source import modules

    for module in modules(program, program):
        for found in writes_in(module):
            parts = found.path[1:] if found.path[0] in _HOMES else found.path
            key = ".".join(ROOT if part == ANY_KEY else part for part in parts)
            if key:
                place = f"{os.path.relpath(module.path)}:{found.line}"
                yield Overwrite(key, place, found.absent_only)


def _reads(program: str, path: str, known: tuple[tuple[str, bytes], ...]) -> bool:
    """Whether the config lies at or below the program's folder, or a text names both."""
    if path.startswith(os.path.join(os.path.dirname(program), "")):
        return True
    return any((at == program or _names(data, program)) and _names(data, path) for at, data in known)


def _names(data: bytes, path: str) -> bool:
    base = os.path.basename(path)
    stem = base.removesuffix(".py").encode()
    if base.endswith(".py") and re.search(rb"-m\s+(?:[\w.]+\.)?%b(?![\w.])" % re.escape(stem), data):
        return True
    if base.encode() not in data:
        return False
    text = data.decode("latin-1")
    for match in re.finditer(rf"(?<![\w-]){re.escape(base)}(?![\w.-])", text):
        # Searched backwards: a search forwards begins anew at each character of a long word.
        before = text[max(0, match.start() - _LONGEST) : match.start()][::-1]
        folders = re.match(r"[\w./~${}-]*", before)
        if folders and may_be(folders[0][::-1] + base, path):
            return True
    return False


# What programs refuse to run with DeepSpeed, as far as a launch file and its config show it.
#
# A row for each of their own checks, beside the arguments that `table` has a row for.


class Refusal(NamedTuple):
    """One check of a program. Signs: `key` is on, `!key` is not; `key=a|b` is one of these, `key~a` has it.

    A sign with `config:` before it is of the config, all others of the launch file.
    """

    key: str
    """What is refused, where it is written; else the next sign's key."""
    signs: tuple[str, ...]
    how: str
    """With or without what: `beside DeepSpeed`."""
    source: str
    help: str = "remove it"
    holds: Callable[[Mapping[str, Json]], bool] | None = None
    """What no sign can say of the launch file."""
    of_config: Callable[[Document], bool] | None = None
    """What no sign can say of the config."""
    changes: tuple[str, ...] = ()
    """Changes of the reader's versions that are in force, or, behind a `!`, not yet."""


class Refused(NamedTuple):
    """A refusal that holds for a job: where the launch file writes what is refused, and the value there."""

    refusal: Refusal
    place: tuple[str, ...]
    value: Json
    program: str


def refused(job: Job, version: str | None = None) -> Iterator[Refused]:
    """What the program of a job refuses, with its reader in a version; None: the newest."""
    own = job.launch.value() if job.arguments is None else job.arguments
    if not isinstance(own, Mapping):
        return
    base = tuple(job.format.within.split(".")) if job.format.within and job.arguments is None else ()
    holder = at(own, ".".join(base)) if base else own
    known = job.given.arguments if job.given else {}
    worked_out = {name: known[name] for name in ("bf16", "fp16") if name in known}
    launch = {**holder, **worked_out} if isinstance(holder, Mapping) else worked_out
    rows = (*OF_PROGRAM.get(job.format.name, ()), *_unread_text(job))
    if job.format.reader == "transformers" and job.given is not None:
        rows += (*OF_TRAINER, *_no_numbers(job))
    rows = tuple(row for row in rows if _in_force(row, job.format.reader, version))
    said: set[str] = set()
    for row in rows:
        if row.key not in said and _is_met(row, launch, job.document):
            keys = (row.key, *(sign.partition("=")[0].lstrip("!") for sign in row.signs))
            key = next((key for key in keys if at(own, ".".join((*base, key))) is not None), None)
            if key is not None:
                said.add(row.key)
                place = (*base, *key.split("."))
                script = job.format.name == SCRIPT.name
                program = job.format.reader.capitalize() if script else job.format.name
                yield Refused(row, place, at(own, ".".join(place)), program)


def _in_force(row: Refusal, reader: str, version: str | None) -> bool:
    """Whether a version refuses it."""
    return all(does(word.lstrip("!"), reader, version) != word.startswith("!") for word in row.changes)


def _unread_text(job: Job) -> Iterator[Refusal]:
    """A config that is no path, but text itself, which not every version takes."""
    if job.encoded is not None and job.format.reader in HUGGING_FACE:
        key, since = job.key.lstrip("-"), (f"!{job.encoded}",)
        what = {"json_text": "as JSON text", "base64": "as base64"}[job.encoded]
        yield Refusal(key, (), what, "the reader's own loader", "write a path", changes=since)


def _no_numbers(job: Job) -> Iterator[Refusal]:
    """Arguments with which the Trainer calculates, and cannot: text, and a batch of nothing."""
    own = {theirs: name for name, theirs in job.format.arguments.items()}
    for name, default in BY_NAME["transformers"].defaults.items():
        value = job.given.arguments.get(name) if job.given else None
        if isinstance(default, bool) or not isinstance(default, int | float) or value is None:
            continue
        counted = name in _COUNTED
        if isinstance(value, str) and not _OPEN.search(value):
            yield Refusal(own.get(name, name), (), "where a number is meant", _ARGUMENTS, "write a number")
        elif counted and isinstance(value, int | float) and value < 1:
            yield Refusal(own.get(name, name), (), "where it counts samples", _ARGUMENTS, "write 1 or more")


_COUNTED = ("per_device_train_batch_size", "gradient_accumulation_steps")
_OPEN = re.compile(r"[${?<]")
"""What some other program fills in later."""
_ARGUMENTS = "transformers 5.23 training_args.py:TrainingArguments.__post_init__"


def _is_met(row: Refusal, launch: Mapping[str, Json], config: Document | None) -> bool:
    data = None if config is None else config.value()
    return (
        all(_holds(sign, launch, data) for sign in row.signs)
        and (row.holds is None or row.holds(launch))
        and (row.of_config is None or (config is not None and row.of_config(config)))
    )


def _holds(sign: str, launch: Mapping[str, Json], config: Json) -> bool:
    if sign.startswith("config:"):
        return isinstance(config, Mapping) and _holds(sign.removeprefix("config:"), config, None)
    if sign.startswith("!"):
        return not _holds(sign[1:], launch, config)
    key, equals, values = sign.partition("=")
    if equals:
        return str(at(launch, key)) in values.split("|")
    key, tilde, word = sign.partition("~")
    from dsconfig.launch.training_arguments import plain

    value = plain(at(launch, key))
    if isinstance(value, str) and _OPEN.search(value):
        return False
    return word in str(value) if tilde else bool(value) and value != "no"


def _several_devices(launch: Mapping[str, Json]) -> bool:
    """Whether each process of a job sees several GPUs, as it is written."""
    seen, count = at(launch, "ENV.CUDA_VISIBLE_DEVICES"), str(at(launch, "ENV.NPROC_PER_NODE"))
    if seen is None or "$" in str(seen) or not count.isdecimal() or int(count) < 1:
        return False
    return len(str(seen).split(",")) // int(count) > 1


def _no_zero(config: Document) -> bool:
    data = config.value()
    return isinstance(data, Mapping) and "zero_optimization" not in data


def _is_found(_: Document) -> bool:
    return True


def _no_json(config: Document) -> bool:
    """Whether a file is not strict JSON: `json.load` fails on it, or takes other than DeepSpeed would."""
    made = config.is_data or config.within is not None or ": " in config.name
    return not made and not config.readable("json")


def _in_parallel(launch: Mapping[str, Json]) -> bool:
    size = launch.get("tensor_parallel_size")
    return isinstance(size, int) and size > 1


def _strict(key: str, source: str) -> Refusal:
    """The check of a program that reads a config with `json.load`, and hands DeepSpeed a dict."""
    return Refusal(key, (key,), "where it is not JSON", source, "write strict JSON", of_config=_no_json)


_Z3, _NO_Z3 = "config:zero_optimization.stage=3", "!config:zero_optimization.stage=3"
_BELOW = "remove it, or use ZeRO stage 2"
_FACTORY = "llamafactory 0.9.5 hparams/parser.py:get_train_args"
_AXOLOTL = "axolotl 0.19 utils/schemas/validation.py:"
_SWIFT = "ms-swift 4.6 arguments/sft_args.py:SftArguments."
_TRAINER = "transformers 5.23 trainer.py:Trainer."
_OWN_FILE = "put the config into a file of its own"
_PLAIN = "beside DeepSpeed"
OF_PROGRAM: Mapping[str, tuple[Refusal, ...]] = {
    "LLaMA-Factory": (
        *(
            Refusal(key, (key, _Z3), "with ZeRO-3", _FACTORY, _BELOW)
            for key in ("pure_bf16", "predict_with_generate", "pissa_init", "use_unsloth", "use_kt")
        ),
        *(Refusal(key, (key,), _PLAIN, _FACTORY) for key in ("use_galore", "use_apollo")),
        Refusal("badam_mode", ("use_badam", "badam_mode=ratio"), _PLAIN, _FACTORY, 'write "layer"'),
        Refusal("use_badam", ("use_badam", _NO_Z3), "without ZeRO-3", _FACTORY, of_config=_is_found),
    ),
    "Axolotl": (
        Refusal("optimizer", ("optimizer=muon",), _PLAIN, f"{_AXOLOTL}check_muon_deepspeed_fsdp"),
        Refusal("optimizer", ("optimizer=polora",), _PLAIN, f"{_AXOLOTL}check_polora"),
        Refusal("optimizer", ("optimizer=q_galore_adamw8bit",), _PLAIN, f"{_AXOLOTL}check_qgalore"),
        Refusal("optimizer", ("optimizer~flash_",), _PLAIN, f"{_AXOLOTL}check_flashoptim_deepspeed_fsdp"),
        Refusal("fsdp", ("fsdp",), _PLAIN, f"{_AXOLOTL}check_fsdp_deepspeed"),
        Refusal("relora", ("relora",), _PLAIN, f"{_AXOLOTL}check_relora"),
        Refusal(
            "batch_size",
            ("batch_size", "gradient_accumulation_steps"),
            "beside `gradient_accumulation_steps`",
            f"{_AXOLOTL}check_gas_bsz",
        ),
        Refusal(
            "batch_size",
            ("batch_size", "!micro_batch_size", "!gradient_accumulation_steps"),
            "without `micro_batch_size`",
            f"{_AXOLOTL}check_batch_size_fields",
            "add `micro_batch_size`",
        ),
        Refusal(
            "tensor_parallel_size",
            (),
            "without a section `zero_optimization`",
            f"{_AXOLOTL}check_tensor_parallel_size_update_ds_json",
            "add the section to the config",
            _in_parallel,
            _no_zero,
        ),
        Refusal(
            "tensor_parallel_size",
            (),
            "beside a config that stands here",
            f"{_AXOLOTL}check_tensor_parallel_size_update_ds_json",
            _OWN_FILE,
            lambda launch: _in_parallel(launch) and isinstance(launch.get("deepspeed"), Mapping),
        ),
        Refusal(
            "deepcompile",
            ("deepcompile",),
            "beside a config that stands here",
            f"{_AXOLOTL}check_deepcompile",
            _OWN_FILE,
            lambda launch: isinstance(launch.get("deepspeed"), Mapping),
        ),
    ),
    "Determined": (
        _strict("hyperparameters.deepspeed_config", "_deepspeed_context.py:overwrite_deepspeed_config"),
    ),
    "Megatron-DeepSpeed": (_strict("deepspeed_config", "megatron/training.py:_create_ds_config_dict"),),
    "ms-swift": (
        Refusal("fsdp", ("fsdp",), _PLAIN, f"{_SWIFT}_init_fsdp"),
        Refusal(
            "zero_hpz_partition_size",
            ("zero_hpz_partition_size",),
            "without a section `zero_optimization`",
            f"{_SWIFT}_init_deepspeed",
            of_config=_no_zero,
        ),
        Refusal(
            "ENV.NPROC_PER_NODE",
            ("!ENV.SWIFT_SINGLE_DEVICE_MODE=1",),
            "where a process has several GPUs",
            f"{_SWIFT}_init_deepspeed",
            "write as many processes as `CUDA_VISIBLE_DEVICES` has GPUs",
            _several_devices,
        ),
    ),
}
"""The program's own checks, by the name of its row in the table of formats."""
OF_TRAINER = (
    Refusal("bf16", ("bf16", "fp16"), "beside `fp16`", "transformers 5.23 training_args.py:_validate_args"),
    Refusal("fsdp", ("fsdp",), _PLAIN, f"{_TRAINER}__init__"),
    Refusal(
        "auto_find_batch_size",
        ("auto_find_batch_size",),
        _PLAIN,
        f"{_TRAINER}create_accelerator_and_postprocess",
        changes=("find_batch_stops", "!find_batch_below_3"),
    ),
    Refusal(
        "auto_find_batch_size",
        ("auto_find_batch_size", _Z3),
        "with ZeRO-3",
        f"{_TRAINER}create_accelerator_and_postprocess",
        _BELOW,
        changes=("find_batch_stops",),
    ),
    Refusal(
        "warmup_steps",
        (),
        "where it counts steps, as it does before version 5.0",
        f"{_ARGUMENTS.rpartition('.')[0]}._validate_args",
        "write a whole number, or `warmup_ratio`",
        lambda launch: isinstance(launch.get("warmup_steps"), float),
        changes=("!warm_up_share",),
    ),
    Refusal(
        "save_only_model",
        ("save_only_model", "load_best_model_at_end"),
        "beside DeepSpeed and `load_best_model_at_end`",
        f"{_TRAINER}create_accelerator_and_postprocess",
        changes=("save_whole",),
    ),
)
"""Of all programs that end in the Trainer."""
