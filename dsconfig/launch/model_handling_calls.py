"""Find calls that load, use or pass on models in ways that fail with partitioned parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dsconfig.launch.calls_of_program import ConfigSensitiveCall, ProgramCalls, line_number_of
from dsconfig.launch.python.name_bindings import last_dotted_name
from dsconfig.launch.python.syntax_trees import (
    called_function_name,
    keyword_argument,
    literal_value,
)

_GENERATING = frozenset({"GRPOConfig", "RLOOConfig", "OnlineDPOConfig", "NashMDConfig", "XPOConfig"})
"""Argument classes of TRL's trainers that generate with the model that they train."""


class GenerationCalls(ProgramCalls):
    """Search for calls outside a plain training step that use partitioned parameters."""

    def risky_generation_calls(self) -> Iterator[ConfigSensitiveCall]:
        """Yield generation calls that deadlock, gather the whole model, or leave inference tensors behind."""
        wrapped = self._names_of_wrapped_models()
        knows_stage = "HfDeepSpeedConfig" in self.referenced
        trains = any(called_function_name(call) == "backward" for call in self.calls)
        for call in self.calls:
            owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
            base = owner.removesuffix(".module")
            is_engine = base in wrapped and line_number_of(call) > wrapped[base]
            is_engine |= bool(re.fullmatch(r"(?:\w+\.)*accelerator\.unwrap_model\(\w+\)", owner))
            if called_function_name(call) == "generate" and is_engine and self._runs_unless_excluded(call):
                if not knows_stage and "synced_gpus" not in self._passed_argument_names(call, "synced_gpus"):
                    yield self._describe_call("unsynchronized generation", call)
            elif called_function_name(call) in _GENERATING and self._runs_unless_excluded(call):
                names = self._passed_argument_names(call, "use_vllm", "ds3_gather_for_generation")
                if not names and literal_value(keyword_argument(call, "use_vllm")) is not True:
                    yield self._describe_call("gathered generation", call)
            name = ast.unparse(call.func)
            if trains and name.removesuffix(".module") in wrapped and self._is_in_inference_mode(call):
                yield self._describe_call("inference mode", call)

    def _passed_argument_names(self, call: ast.Call, *names: str) -> frozenset[str]:
        """Return which of `names` a call passes as keywords, or may pass by unpacking a dict."""
        passed = {each.arg for each in call.keywords if each.arg in names}
        for each in call.keywords:
            if each.arg is not None:
                continue
            values = (
                self._all_values_of_variable(each.value.id, call)
                if isinstance(each.value, ast.Name)
                else [each.value]
            )
            keys = [_keys_of_dict_literal(value) for value in values]
            if not keys or None in keys:
                return frozenset(names)
            passed |= {key for each_keys in keys for key in each_keys or () if key in names}
        return frozenset(name for name in passed if name)

    def _is_in_inference_mode(self, call: ast.Call) -> bool:
        for parent, child in self._ancestors_of_node(call):
            if isinstance(parent, ast.With) and child in parent.body:
                if any(_is_inference_mode(item.context_expr) for item in parent.items):
                    return True
            elif isinstance(parent, ast.FunctionDef):
                return self._may_run(call) and any(map(_is_inference_mode, parent.decorator_list))
        return False

    def risky_checkpointing_calls(self) -> Iterator[ConfigSensitiveCall]:
        """Yield training arguments that enable non-reentrant checkpointing in a program that trains an adapter."""
        has_adapter = "get_peft_model" in self.referenced or any(
            keyword_argument(call, "peft_config") is not None for call in self.calls
        )
        for call in self.calls if has_adapter else ():
            options = keyword_argument(call, "gradient_checkpointing_kwargs")
            if isinstance(options, ast.Name):
                options = next(iter(self._all_values_of_variable(options.id, call)), None)
            choice = options and _value_of_literal_key(options, "use_reentrant")
            is_off = isinstance(choice, ast.Constant) and choice.value is False
            if is_off and self._runs_unless_excluded(call):
                yield self._describe_call("non-reentrant checkpointing", call)


def _is_inference_mode(node: ast.expr) -> bool:
    call = node.func if isinstance(node, ast.Call) else node
    # `inference_mode(False)` switches it off.
    return last_dotted_name(call) == "inference_mode" and not (isinstance(node, ast.Call) and node.args)


def _keys_of_dict_literal(value: ast.expr) -> frozenset[str] | None:
    """Return the keys of a dict literal or `dict(...)` call, or None if not all of them are constants."""
    if isinstance(value, ast.Dict) and all(isinstance(key, ast.Constant) for key in value.keys):
        return frozenset(str(key.value) for key in value.keys if isinstance(key, ast.Constant))
    if isinstance(value, ast.Call) and called_function_name(value) == "dict" and not value.args:
        names = [each.arg for each in value.keywords]
        return None if None in names else frozenset(name for name in names if name)
    return None


def _value_of_literal_key(value: ast.expr, key: str) -> ast.expr | None:
    """Return the value of a key in a dict literal or a call of `dict`, or None if the key is absent."""
    if isinstance(value, ast.Dict):
        pairs = zip(value.keys, value.values, strict=True)
        return next((each for name, each in pairs if name is not None and literal_value(name) == key), None)
    return (
        keyword_argument(value, key)
        if isinstance(value, ast.Call) and called_function_name(value) == "dict"
        else None
    )


_RANK_AFTER_RANK = frozenset({"main_process_first", "local_main_process_first"})
_WITH_REFERENCE_MODEL = frozenset({"DPOTrainer", "KTOTrainer", "BCOTrainer"})
"""TRL trainers that prepare a reference model with the config of the job."""
_WITHOUT_REFERENCE_MODEL = frozenset(
    {
        "get_peft_model",
        "LoraConfig",
        "get_peft_config",
        "peft_config",
        "PeftModel",
        "precompute_ref_log_probs",
    }
)
_KNOWS_PARTITIONS = frozenset({"ds_numel", "ds_shape", "GatheredParameters", "ds_tensor"})
_PARTITIONS_WHILE_LOADING = frozenset(
    {"HfDeepSpeedConfig", "HfArgumentParser", "TrlParser", "TrainingArguments", "Seq2SeqTrainingArguments"}
)


class ModelHandlingCalls(GenerationCalls):
    """Search for the calls of a program that handle its models."""

    def risky_model_calls(self) -> Iterator[ConfigSensitiveCall]:
        """Yield calls that load, measure or pass on a model in a way that fails with partitioned parameters."""
        yield from self._loads_on_one_rank_first()
        yield from self._several_models_prepared()
        yield from self._sizes_of_partitions()
        yield from self._trainers_with_reference_model()
        yield from self._models_without_config()

    def _loads_on_one_rank_first(self) -> Iterator[ConfigSensitiveCall]:
        from_transformers = self._names_imported_from("transformers")
        for call in self.model_load_calls():
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if last_dotted_name(owner) not in from_transformers:
                continue  # Diffusers and others do not partition while they load
            is_first = any(
                isinstance(parent, ast.With)
                and child in parent.body
                and any(
                    isinstance(item.context_expr, ast.Call)
                    and called_function_name(item.context_expr) in _RANK_AFTER_RANK
                    for item in parent.items
                )
                for parent, child in self._ancestors_of_node(call)
            )
            if is_first and self._runs_unless_excluded(call):
                yield self._describe_call("load on one rank first", call)

    def _names_imported_from(self, package: str) -> frozenset[str]:
        return frozenset(
            alias.asname or alias.name
            for node in self.module.nodes
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == package
            for alias in node.names
        )

    def _several_models_prepared(self) -> Iterator[ConfigSensitiveCall]:
        """Yield calls of `prepare` with several models, and later calls with another model and an optimizer."""
        prepared: dict[str, ast.Call] = {}
        starts = [call for call in self.calls if called_function_name(call) == "Accelerator"]
        for call in sorted(self.calls, key=line_number_of):
            if (
                called_function_name(call) != "prepare"
                or not isinstance(call.func, ast.Attribute)
                or last_dotted_name(call.func.value) != "accelerator"
                or not self._is_unconditional(call)
            ):
                continue
            models = [
                each for each in call.args if isinstance(each, ast.Name) and self._is_model(each.id, call)
            ]
            names = list(dict.fromkeys(each.id for each in models))
            if len(names) > 1:
                yield self._describe_call("several models", call, " and ".join(names))
            if len(names) != 1 or not any(
                isinstance(each, ast.Name) and "optim" in each.id.lower() for each in call.args
            ):
                continue
            prepared.setdefault(names[0], call)
            first_name, first = next(iter(prepared.items()))
            if (
                first_name != names[0]
                and len(starts) == 1
                and self._enclosing_function(first) is self._enclosing_function(call)
                and not self.referenced & {"free_memory", "clear"}
            ):
                yield self._describe_call("second model", call, first_name)

    def _is_model(self, name: str, call: ast.Call) -> bool:
        """Return whether a variable can only hold a model loaded by `from_pretrained`, possibly wrapped by PEFT."""
        values = self._all_values_of_variable(name, call)
        loads = list(self.model_load_calls())
        return bool(values) and all(
            value in loads
            or (isinstance(value, ast.Call) and called_function_name(value) == "get_peft_model")
            for value in values
        )

    def _sizes_of_partitions(self) -> Iterator[ConfigSensitiveCall]:
        """Yield the first `numel` call on a parameter, if the program loads a partitioned model."""
        if (
            self.referenced | self.strings
        ) & _KNOWS_PARTITIONS or not self.referenced & _PARTITIONS_WHILE_LOADING:
            return
        if not any(self._may_run(call) for call in self.model_load_calls()):
            return
        for call in self.calls:
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if called_function_name(call) != "numel" or not isinstance(owner, ast.Name):
                continue
            is_parameter = any(
                isinstance(parent, ast.For | ast.GeneratorExp | ast.ListComp)
                and any(
                    called_function_name(source) in ("parameters", "named_parameters")
                    for source in _iterated_calls(parent)
                )
                for parent, _ in self._ancestors_of_node(call)
            )
            if is_parameter and self._runs_unless_excluded(call):
                yield self._describe_call("size of partition", call)
                return

    def _trainers_with_reference_model(self) -> Iterator[ConfigSensitiveCall]:
        if self.referenced & _WITHOUT_REFERENCE_MODEL or self.strings & _WITHOUT_REFERENCE_MODEL:
            return
        from_trl = self._names_imported_from("trl")  # OpenRLHF has a trainer of the same name
        for call in self.calls:
            if called_function_name(call) not in from_trl:
                continue
            is_known = all(each.arg not in (None, *_WITHOUT_REFERENCE_MODEL) for each in call.keywords)
            if (
                called_function_name(call) in _WITH_REFERENCE_MODEL
                and is_known
                and self._runs_unless_excluded(call)
            ):
                yield self._describe_call("reference model", call)

    def _models_without_config(self) -> Iterator[ConfigSensitiveCall]:
        """Yield trainers whose model class is defined in the same file without a `config` attribute."""
        plain = {
            node.name
            for node in self.module.nodes
            if isinstance(node, ast.ClassDef)
            and [ast.unparse(base) for base in node.bases] in (["nn.Module"], ["torch.nn.Module"], ["Module"])
            and not _sets_config(node)
        }
        for call in self.calls if plain else ():
            model = keyword_argument(call, "model")
            if not called_function_name(call).endswith("Trainer") or not isinstance(model, ast.Name):
                continue
            values = self._all_values_of_variable(model.id, call)
            if (
                values
                and all(
                    isinstance(value, ast.Call)
                    and isinstance(value.func, ast.Name)
                    and value.func.id in plain
                    for value in values
                )
                and self._runs_unless_excluded(call)
            ):
                yield self._describe_call("model without config", call)


def _iterated_calls(loop: ast.For | ast.GeneratorExp | ast.ListComp) -> Iterator[ast.Call]:
    sources = [loop.iter] if isinstance(loop, ast.For) else [each.iter for each in loop.generators]
    return (node for source in sources for node in ast.walk(source) if isinstance(node, ast.Call))


def _sets_config(node: ast.ClassDef) -> bool:
    """Return whether a class, or a method that customizes attribute access, may provide a `config` attribute."""
    return any(
        (isinstance(each, ast.Attribute) and each.attr == "config" and isinstance(each.ctx, ast.Store))
        or (isinstance(each, ast.Name) and each.id == "config" and isinstance(each.ctx, ast.Store))
        or (isinstance(each, ast.FunctionDef) and each.name in ("config", "__getattr__"))
        for each in ast.walk(node)
    )
