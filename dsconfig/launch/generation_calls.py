"""Find calls that generate, evaluate or recompute activations with a model that stage 3 partitions."""

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
    """Search for calls that use partitioned parameters outside a plain training step."""

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
        """Return the `names` that a call passes as keywords or may pass by unpacking a dict."""
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
