"""Find the settings that decide a job's memory in the code of its program: model, adapters, checkpointing, kernels."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Mapping
from functools import lru_cache

from dsconfig.core.file_access import relative_path
from dsconfig.core.json_types import Json, JsonObject, NamedTuple
from dsconfig.document.config_file_names import is_python_name
from dsconfig.launch.calls_of_program import ProgramCalls
from dsconfig.launch.launch_file_formats import PROGRAM_FILE, SCRIPT
from dsconfig.launch.python.name_bindings import last_dotted_name
from dsconfig.launch.python.syntax_trees import (
    argument_at,
    called_function_name,
    keyword_argument,
    program_modules,
)
from dsconfig.launch.repository_files import resolve_written_path, time_cache_key
from dsconfig.launch.requirements import consumer_version
from dsconfig.launch.training_arguments import MODEL_KEYS, HasArguments
from dsconfig.launch.training_arguments_in_code import ProgramModules

MODEL, CHECKPOINTING, ADAPTERS, QUANTIZATION = (
    MODEL_KEYS[0],
    "gradient_checkpointing",
    "use_peft",
    "load_in_4bit",
)
_TRAINING_ARGUMENTS = frozenset(
    {
        *("activation_offloading", "attn_implementation", "beta", CHECKPOINTING, "loss_type", "max_length"),
        *("gradient_checkpointing_kwargs", "max_seq_length", "model_max_length", "optim", "packing"),
        *("precompute_ref_log_probs", "torch_compile", "use_liger_kernel", "use_liger_loss", "use_vllm"),
        *("vllm_gpu_memory_utilization", "vllm_mode"),
    }
)
"""Arguments of the classes of Transformers and TRL on which memory depends."""
_DATACLASS_FIELDS = _TRAINING_ARGUMENTS | {
    *("lora_dropout", "lora_enable", "lora_r", "lora_rank", "lora_target_modules", "load_in_8bit", MODEL),
    *("modules_to_save", ADAPTERS, "use_lora", QUANTIZATION),
}
"""Fields of a program's own dataclasses, whose defaults apply if the command does not pass the flag."""
_LORA_FIELDS: Mapping[str, str] = {
    "r": "lora_r",
    "lora_dropout": "lora_dropout",
    "target_modules": "lora_target_modules",
    "modules_to_save": "modules_to_save",
}
"""Flag of each argument of PEFT's `LoraConfig` (trl trainer/model_config.py has the same names)."""
_LORA_RANK = 8
"""Default of `LoraConfig.r` (peft tuners/lora/config.py)."""
_OTHER_ADAPTERS = frozenset(
    {
        *(
            "AdaLoraConfig",
            "AdaptionPromptConfig",
            "BOFTConfig",
            "FourierFTConfig",
            "IA3Config",
            "LNTuningConfig",
        ),
        *("LoHaConfig", "LoKrConfig", "OFTConfig", "PrefixTuningConfig", "PromptEncoderConfig", "VeraConfig"),
        *("PromptTuningConfig", "TrainableTokensConfig", "VBLoRAConfig"),
    }
)
"""Configs of PEFT's other adapters, which have no estimate."""
TRL_METHODS: Mapping[str, str] = {
    "SFTTrainer": "sft",
    "DPOTrainer": "dpo",
    "KTOTrainer": "kto",
    "ORPOTrainer": "orpo",
    "CPOTrainer": "cpo",
    "RewardTrainer": "reward",
    "PPOTrainer": "ppo",
    "GRPOTrainer": "grpo",
    "RLOOTrainer": "rloo",
    "OnlineDPOTrainer": "online_dpo",
    "GKDTrainer": "gkd",
}
"""Training method of each trainer of TRL (trl/trainer)."""
_PARSING_FUNCTIONS = frozenset(
    {
        *("CLI", "Fire", "Typer", "option", "parse_args", "parse_args_and_config"),
        *("parse_args_into_dataclasses", "parse_known_args"),
    }
)
"""Functions that parse flags: of argparse, Transformers, TRL, jsonargparse, Fire, Typer and click."""
_UNSLOTH = ("FastLanguageModel", "FastModel", "FastVisionModel")
"""Classes of Unsloth that load a model with its own kernels."""
_READ = frozenset({SCRIPT.name, PROGRAM_FILE.name, "Transformers"})
"""Formats of jobs whose program is the user's own; the other programs have their own defaults."""


class MemoryArgumentsInCode(NamedTuple):
    """Settings in the code of a program, under the names of the flags that TRL has for them."""

    defaults: Mapping[str, Json]
    """Values that apply unless the command passes the flag."""
    overrides: Mapping[str, Json]
    """Values that the code sets, whatever the command passes."""
    unknown: Mapping[str, str]
    """Location of each setting that the code decides at run time: `train.py:12`, by the name of the flag."""
    trl_class: str = ""
    """Class of TRL that holds the training arguments, or an empty string."""
    trainer: str = ""
    """Trainer of TRL that the program uses, or an empty string."""
    loaded_at: str = ""
    """Location of the call that loads the model by a constant name, or an empty string."""
    are_flags_unknown: bool = False
    """Whether flags that are not known may change the settings."""
    shown_program: str = ""
    """Path of the program as shown in messages, or an empty string if its code says nothing."""

    def add_to(self, flags: Mapping[str, Json]) -> JsonObject:
        """Return the flags of a command with the settings of the code."""
        return {**self.defaults, **flags, **self.overrides}


NOTHING_IN_CODE = MemoryArgumentsInCode({}, {}, {})


def memory_arguments_in_code(job: HasArguments) -> MemoryArgumentsInCode:
    """Return the settings of a job's program that decide its memory; only constants and flags are evaluated."""
    if job.format.name not in _READ or not job.program_file:
        return NOTHING_IN_CODE
    path = resolve_written_path(job.program_file, job.launch.name, job.folder).path
    if path is None:
        return NOTHING_IN_CODE
    are_known = (
        job.arguments is not None and not job.may_have_more_flags and not is_python_name(job.launch.name)
    )
    return memory_arguments_of_program(path, job.launch.name, job.arguments if are_known else None)


def memory_arguments_of_program(
    program: str, launch: str, flags: Mapping[str, Json] | None = None
) -> MemoryArgumentsInCode:
    """Return the settings of a program that decide its memory.

    Args:
        program: path of the program.
        launch: file that starts the program and decides which files may be read.
        flags: flags of the command, or None if they are not known.
    """
    return _cached_memory_arguments(
        os.path.abspath(program), launch, "" if flags is None else json.dumps(dict(flags)), time_cache_key()
    )


@lru_cache(maxsize=32)  # several facts of a job are looked up in the same program
def _cached_memory_arguments(path: str, launch: str, flags: str, _: int) -> MemoryArgumentsInCode:
    """Read a program; `flags` are those of its command as JSON, or empty if they are not known."""
    modules = program_modules(path, launch)
    if not modules:
        return NOTHING_IN_CODE
    trl_version = consumer_version("trl", path)
    program = ProgramModules(modules, trl_version and trl_version[0])
    try:
        return _MemoryCalls(program, json.loads(flags) if flags else None).memory_arguments()
    except RecursionError:  # nesting deeper than the interpreter's stack
        return NOTHING_IN_CODE


class _MemoryCalls(ProgramCalls):
    """Search for the calls in a program on which its memory depends."""

    def __init__(self, program: ProgramModules, flags: Mapping[str, Json] | None) -> None:
        super().__init__(program.modules[0])
        self.program = program
        self.defaults = {} if flags is None else program.defaults_of_dataclass_fields(_DATACLASS_FIELDS)
        self.flags = None if flags is None else {**self.defaults, **flags}
        self.overrides: JsonObject = {}
        self.unknown: dict[str, str] = {}
        self.loaded_at = ""

    def memory_arguments(self) -> MemoryArgumentsInCode:
        """Collect the settings of all calls."""
        trl_class = self._read_training_arguments()
        self._read_checkpointing_calls()
        self._read_loaded_model()
        self._read_adapters()
        trainers = {name for call in self.calls if (name := called_function_name(call)) in TRL_METHODS}
        trainer = trainers.pop() if len(trainers) == 1 else ""
        says = self.defaults or self.overrides or self.unknown or trainer
        return MemoryArgumentsInCode(
            self.defaults,
            self.overrides,
            self.unknown,
            trl_class,
            trainer,
            self.loaded_at if MODEL in self.overrides else "",
            self.flags is None and self._parses_flags(),
            relative_path(self.module.path) if says else "",
        )

    def _parses_flags(self) -> bool:
        """Return whether the program, or a module that it imports, parses flags."""
        return any(
            (isinstance(node, ast.Call) and called_function_name(node) in _PARSING_FUNCTIONS)
            or (isinstance(node, ast.Attribute) and node.attr == "argv")
            for module in self.program.modules
            for node in module.nodes
        )

    def _set(self, name: str, value: Json, node: ast.AST) -> None:
        """Record a setting; None, or a second value, makes it unknown."""
        if value is None or (name in self.overrides and self.overrides[name] != value):
            self.overrides.pop(name, None)
            self.unknown.setdefault(name, self.module.shown_location(node))
        elif name not in self.unknown:
            self.overrides[name] = value

    def _value(self, node: ast.expr) -> Json:
        """Return the value of an expression, or None if it is known only at run time."""
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            items = [self._value(each) for each in node.elts]
            return None if None in items else items
        return self.program.evaluate_argument(self.module, node, self.flags)

    def _holds(self, node: ast.AST) -> bool | None:
        """Return whether a node runs, or None if that is known only at run time."""
        if not self._may_run(node):
            return False
        holds: bool | None = True
        for parent, child in self._ancestors_of_node(node):
            if isinstance(parent, ast.If | ast.IfExp) and child is not parent.test:
                if "__main__" in ast.unparse(parent.test):
                    continue
                is_body = child in parent.body if isinstance(parent, ast.If) else child is parent.body
                outcome = self._outcome_of_test(parent.test)
                if outcome is not None and outcome is not is_body:
                    return False
                holds = holds if outcome is not None else None
            elif isinstance(parent, ast.ExceptHandler | ast.While | ast.BoolOp):
                holds = None
        return holds

    def _outcome_of_test(self, test: ast.expr) -> bool | None:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            outcome = self._outcome_of_test(test.operand)
            return None if outcome is None else not outcome
        value = self._value(test)
        words = {"true": True, "false": False}
        return (
            words.get(value.lower(), bool(value))
            if isinstance(value, str)
            else None
            if value is None
            else bool(value)
        )

    def _read_training_arguments(self) -> str:
        """Read the calls that build training arguments, and return the name of their class if it is one of TRL."""
        names = set()
        for module, name, call in self.program.training_argument_calls():
            names.add(name)
            for each in call.keywords:
                if each.arg in _TRAINING_ARGUMENTS:
                    value = self.program.evaluate_argument(module, each.value, self.flags)
                    is_dict = isinstance(each.value, ast.Dict)
                    self._set(each.arg, _literal_dict(each.value) if is_dict else value, each.value)
                elif each.arg is None:  # `**kwargs`
                    self._set(CHECKPOINTING, None, call)
        names |= self.program.parsed_argument_classes()
        return names.pop() if len(names) == 1 else ""

    def _read_checkpointing_calls(self) -> None:
        for call in self.calls:
            if called_function_name(call) == "gradient_checkpointing_enable":
                holds = self._holds(call)
                if holds is not False:
                    self._set(CHECKPOINTING, holds, call)

    def _read_loaded_model(self) -> None:
        """Read the model that the program loads, with its kernels and its quantization."""
        loads = [each for each in self.model_load_calls() if not _is_call_of(each, "PeftModel")]
        for call in [each for each in loads if self.is_model_trained(each)] or loads:
            holds = self._holds(call)
            if holds is False:
                continue
            name = argument_at(call, 0, "pretrained_model_name_or_path", "model_name")
            if name is not None:
                self._set(MODEL, self._value(name) if holds else None, call)
                if self.program.evaluate_argument(self.module, name, None) is not None:
                    self.loaded_at = self.module.shown_location(call)
            self._read_loading_options(call)
            if any(_is_call_of(call, owner) for owner in _UNSLOTH):
                self._set("use_unsloth", True, call)
        for call in self.calls:  # TRL's trainers load a model by its name
            if called_function_name(call) in TRL_METHODS:
                model = argument_at(call, 0, "model")
                if model is not None and isinstance(name_or_object := self._value(model), str):
                    self._set(MODEL, name_or_object, call)
                    self.loaded_at = self.module.shown_location(call)

    def _read_loading_options(self, call: ast.Call) -> None:
        """Read the kernels and the quantization that a call of `from_pretrained` asks for."""
        for each in call.keywords:
            if each.arg == "attn_implementation":
                self._set(each.arg, self._value(each.value), call)
            elif each.arg == "use_flash_attention_2" and self._value(each.value) is True:
                self._set("attn_implementation", "flash_attention_2", call)
            elif each.arg in (QUANTIZATION, "load_in_8bit"):
                self._set(each.arg, self._value(each.value), call)
            elif each.arg == "quantization_config":
                self._read_quantization(each.value)

    def _read_quantization(self, node: ast.expr) -> None:
        """Read a `BitsAndBytesConfig`, possibly assigned to a variable before."""
        values = self._all_values_of_variable(node.id, node) if isinstance(node, ast.Name) else [node]
        for value in values or [node]:
            if isinstance(value, ast.Constant) and value.value is None:
                continue
            if not isinstance(value, ast.Call) or called_function_name(value) != "BitsAndBytesConfig":
                self._set(QUANTIZATION, None, value)
                continue
            holds = self._holds(value)
            for each in value.keywords if holds is not False else ():
                if each.arg in (QUANTIZATION, "load_in_8bit", "bnb_4bit_use_double_quant"):
                    self._set(each.arg, self._value(each.value) if holds else None, value)

    def _read_adapters(self) -> None:
        """Read the adapters that the program adds to its model."""
        for call in self.calls:
            name = called_function_name(call)
            is_unsloth = name == "get_peft_model" and keyword_argument(call, "r") is not None
            if name in _OTHER_ADAPTERS or (name == "from_pretrained" and _is_call_of(call, "PeftModel")):
                if self._holds(call) is not False:
                    self._set(ADAPTERS, None, call)
            elif name == "LoraConfig" or is_unsloth:
                self._read_lora(call)
            elif (
                name == "get_peft_model"
                and "LoraConfig" not in self.referenced
                and self._holds(call) is not False
            ):
                self._set(ADAPTERS, None, call)  # its config comes from elsewhere

    def _read_lora(self, call: ast.Call) -> None:
        holds = self._holds(call)
        if holds is False:
            return
        self._set(ADAPTERS, holds, call)
        given: JsonObject = {}
        for each in call.keywords:
            flag = _LORA_FIELDS.get(each.arg or "")
            if flag is not None and not (isinstance(each.value, ast.Constant) and each.value.value is None):
                given[flag] = self._value(each.value)
        if keyword_argument(call, "r") is None:
            given["lora_r"] = _LORA_RANK
        if None in given.values() or any(each.arg is None for each in call.keywords):
            self._set(ADAPTERS, None, call)
        for flag, value in given.items():
            if value is not None:
                self._set(flag, value, call)


def _is_call_of(call: ast.Call, owner: str) -> bool:
    return isinstance(call.func, ast.Attribute) and last_dotted_name(call.func.value) == owner


def _literal_dict(node: ast.expr) -> Json:
    """Return a dict of constants, or None if some values are known only at run time."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
