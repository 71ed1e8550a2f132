"""What a launch file says of the run beside its config: the model, its sequences, checkpointing, adapters."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.consumers.accelerate_launch_file import block, is_launch_file
from dsconfig.core.json_values import at
from dsconfig.document import read_file
from dsconfig.job.model_files import is_barred
from dsconfig.launch.config_references import launchers_of
from dsconfig.launch.find_jobs import job_of
from dsconfig.launch.job_arguments import jobs_behind, jobs_naming
from dsconfig.launch.model_argument import ADAPTED, TARGETS, found_from, named, tuning
from dsconfig.launch.training_arguments import plain
from dsconfig.memory.verdict import NotModelledError
from dsconfig.resolve.lora import adapter_of
from dsconfig.resolve.unmodelled import of_optimizer, optimizer_of, unmodelled

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.document import Document
    from dsconfig.job.detect_consumer import Reader
    from dsconfig.launch.launched_job import Job
    from dsconfig.memory.graph import Adapter
    from dsconfig.memory.verdict import Unmodelled

LENGTH = ("cutoff_len", "sequence_len", "max_length", "max_seq_length", "model_max_length", "block_size")
RANK = ("lora_rank", "lora_r")
QUANTISED = ("quantization_bit", "load_in_4bit", "load_in_8bit", "quant_bits")
ATTENTION = {"fa2": "flash", "fa3": "flash", "flash_attention_2": "flash", "flash_attn": "flash"}
ATTENTION |= {"sdpa": "sdpa", "eager": "eager", "disabled": "eager"}
INIT, DATA = "zero3_init_flag", (".yaml", ".yml", ".json")
WORDS = dict.fromkeys(("y", "yes", "t", "true", "on", "1"), True)
WORDS |= dict.fromkeys(("n", "no", "f", "false", "off", "0"), False)
"""As Accelerate's `str_to_bool` takes them."""


class Told(NamedTuple):
    """What is told; None where nothing is."""

    name: str = ""
    model: str | None = None
    length: int | None = None
    checkpointing: bool | None = None
    attention: str | None = None
    adapter: Adapter | None = None
    reentrant: bool = False
    """Whether checkpointing is said to be reentrant."""
    unmodelled: tuple[Unmodelled, ...] = ()
    """What else it says that changes what is held, and is not modelled."""
    optimizer: str | None = None
    """The optimizer that the Trainer makes, where the config names none; see `CLIENTS`."""
    optimizers: tuple[Unmodelled, ...] = ()
    """What of that is not modelled."""
    zero_init: bool | None = None
    """Whether the model is built in shards at stage 3 (Accelerate's `zero3_init_flag`)."""


def told(document: Document, reader: Reader) -> Told:
    """What the launch file says: the document itself, or those that its reader has, where they agree.

    Raises:
        OSError: the config that it names cannot be read.
        NotModelledError: the model is quantised, or trained in a way that is not modelled.
    """
    job = job_of(document)
    jobs = jobs_behind(reader, document.name) if job is None else [job]
    found = list(map(_told, jobs))
    agreed = found[0] if len({each._replace(name="") for each in found}) == 1 else Told()
    return agreed._replace(zero_init=_zero3_init(document, [job] if job else jobs_naming(document.name)))


def _zero3_init(document: Document, jobs: Sequence[Job]) -> bool | None:
    """What `zero3_init_flag` says: in Accelerate's launch file, in a flag or a variable of the command.

    Source: accelerate utils/dataclasses.py, `DeepSpeedPlugin.__post_init__`; the Trainer goes by it too where
    Accelerate's launcher starts it. None where nothing says it, or several files do not agree.
    """
    launches = [document.value(), *(job.document.value() for job in jobs if job.document)]
    launches += _accelerates(document.name)  # they name the config, and are no jobs
    commands = [job.arguments for job in jobs if job.arguments]
    said = [block(data).get(INIT) for data in launches if is_launch_file(data)]
    said += [data.get(INIT) for data in commands]
    said += [at(data, "ENV.ACCELERATE_DEEPSPEED_ZERO3_INIT") for data in commands]
    found = {WORDS[word] for value in said if (word := str(value).lower()) in WORDS}
    return found.pop() if len(found) == 1 else None


def _accelerates(name: str) -> Iterator[JsonObject]:
    """The launch files of Accelerate that name the config at a path."""
    for launch in launchers_of(name) if name and not name.startswith("<") else ():
        with suppress(OSError):
            data = read_file(launch).value() if launch.endswith(DATA) else None
            if is_launch_file(data):
                yield data


def _told(job: Job) -> Told:
    data = job.launch.value() if job.arguments is None else job.arguments
    if not isinstance(data, Mapping):
        return Told()
    program, launch = job.format.name, job.launch.name
    name = launch if launch.startswith("<") else os.path.relpath(launch)
    refused = next((key for key in QUANTISED if plain(data.get(key)) not in (None, False, 0)), None)
    if refused:
        raise NotModelledError(f"a quantised model (`{refused}` in {name}) is not modelled")
    length = next((found for key in LENGTH if type(found := plain(at(data, key))) is int and found > 0), None)
    if length is None and program == "LLaMA-Factory":
        length = 2048
    words = (data.get(key) for key in ("flash_attn", "attn_implementation", "attn_impl"))
    attention = next((ATTENTION[word] for word in words if isinstance(word, str) and word in ATTENTION), None)
    return Told(
        name,
        _model(data, launch),
        length,
        _checkpointing(data, program),
        attention,
        _adapter(data, program),
        _checkpoints_reentrant(data, program),
        tuple(unmodelled(data, f" in {name}")),
        optimizer_of(data),
        tuple(of_optimizer(data, f" in {name}")),
    )


def _model(data: Mapping[str, Json], launch: str) -> str | None:
    """The model, as found from the launch file where that is on disk."""
    written = named(data)
    if written is None or "$" in written:
        return None
    return found_from(written, launch) or (None if is_barred(written, launch) else written)


def _checkpointing(data: Mapping[str, Json], program: str) -> bool | None:
    if program == "LLaMA-Factory":
        return plain(data.get("disable_gradient_checkpointing")) is not True
    value = plain(data.get("gradient_checkpointing"))
    if value is None:
        return True if program in ADAPTED else None
    return value is not False


def _checkpoints_reentrant(data: Mapping[str, Json], program: str) -> bool:
    if program == "LLaMA-Factory":  # `ModelArguments.use_reentrant_gc`
        return plain(data.get("use_reentrant_gc")) is not False
    return bool(_checkpointing(data, program)) and is_reentrant(data)


def is_reentrant(arguments: Mapping[str, Json]) -> bool:
    """Whether the Trainer's checkpointing is, by `gradient_checkpointing_kwargs` or JSON of it.

    Where nothing says so it is: `PreTrainedModel.gradient_checkpointing_enable` of Transformers before 5.
    """
    said = arguments.get("gradient_checkpointing_kwargs")
    if isinstance(said, str):
        with suppress(ValueError, RecursionError):
            said = json.loads(said)
    return not isinstance(said, Mapping) or plain(said.get("use_reentrant")) is not False


def _adapter(data: Mapping[str, Json], program: str) -> Adapter | None:
    uses = tuning(data, program)
    if uses == "full":
        return None
    if uses != "lora":
        raise NotModelledError(f"training by `{uses}` is not modelled")
    rank = next((found for key in RANK if (found := plain(data.get(key))) is not None), None)
    target = next((found for key in TARGETS if (found := data.get(key))), None)
    if target is None and (program in ADAPTED or data.get("lora_target_linear") is True):
        target = "all"
    values: dict[str, Json] = {"r": rank if rank is not None else 16 if program == "TRL" else 8}
    values |= {"target": target} if target is not None else {}
    share = plain(data.get("lora_dropout"))
    return adapter_of(values | ({"dropout": share} if isinstance(share, (int, float)) else {}))
