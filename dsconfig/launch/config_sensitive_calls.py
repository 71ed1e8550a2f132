"""Find the calls in a Python program that fail with certain settings of its DeepSpeed config."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import lru_cache

from dsconfig.launch.calls_of_program import (
    MODEL,
    ConfigSensitiveCall,
    is_deepspeed_initialize,
    line_number_of,
)
from dsconfig.launch.python.name_bindings import last_dotted_name
from dsconfig.launch.python.syntax_trees import (
    called_function_name,
    keyword_argument,
    literal_value,
    program_modules,
)
from dsconfig.launch.repository_files import time_cache_key
from dsconfig.launch.training_loop_calls import TrainingLoopCalls


def find_config_sensitive_calls(program: str, launch: str = "") -> tuple[ConfigSensitiveCall, ...]:
    """Return the calls of a program that depend on its config; empty if the program cannot be read.

    Args:
        program: path of the program.
        launch: file that starts the program, or its config; its repository limits which files may be read.
    """
    return _cached_config_sensitive_calls(os.path.abspath(program), launch or program, time_cache_key())


@lru_cache(maxsize=16)
def _cached_config_sensitive_calls(program: str, launch: str, _: int) -> tuple[ConfigSensitiveCall, ...]:
    try:
        modules = program_modules(program, launch)
        return tuple(_ConfigSensitiveCalls(modules[0]).uses()) if modules else ()
    except RecursionError:  # nesting deeper than the interpreter's stack
        return ()


_ABOUT_QUANTIZATION = re.compile(r"quant|bit|int\d|lora|bnb", re.IGNORECASE)
_SPREAD = frozenset({"auto", "balanced", "balanced_low_0", "sequential"})
_OPTIMIZERS = frozenset(
    {
        "Adadelta",
        "Adafactor",
        "Adagrad",
        "Adam",
        "AdamW",
        "AdamW8bit",
        "Adam8bit",
        "Lion",
        "NAdam",
        "RMSprop",
        "SGD",
    }
)
_OPTIMIZERS_OF_DEEPSPEED = frozenset({"FusedAdam", "DeepSpeedCPUAdam"})
_SCHEDULERS = re.compile(r"get_(?:\w+_)?schedule(?:r|_with_\w+)?|\w+LR|ReduceLROnPlateau")
_RANK_0 = re.compile(
    r"(?:\w+\.)*(?:is_main_process|is_local_main_process|is_world_process_zero\(\)|is_local_process_zero\(\)"
    r"|is_rank_0\(\)|is_main_process\(\)|is_global_zero)"
    r"|(?:\w+\.)*(?:get_rank\(\)|(?:(?:global|local|world|process)_)?rank|process_index) (?:== 0|in \[-1, 0\]|<= 0)",
    re.IGNORECASE,
)
_ZERO_INIT_HANDLED = re.compile(
    r"zero3_init|zero_init|deepspeed_plugin|zero\.Init|HfDeepSpeedConfig|GatheredParameters"
)
_LOADER = re.compile(r"load|data|(?:^|_)dl|iter|batch|sampl", re.IGNORECASE)


class _ConfigSensitiveCalls(TrainingLoopCalls):
    """The calls of one program file that depend on the config."""

    def uses(self) -> Iterator[ConfigSensitiveCall]:
        yield from self._calls_that_load_models()
        yield from self._calls_that_save_weights()
        yield from self._calls_that_move_model_to_gpu()
        yield from self._calls_of_accelerator_prepare()
        yield from self._calls_of_deepspeed_initialize()
        yield from self._models_loaded_before_arguments()
        yield from self._models_loaded_before_plugin()
        yield from self._models_never_prepared()
        yield from self._loads_before_rendezvous()
        yield from self._nested_zero_init_contexts()
        yield from self.risky_generation_calls()
        yield from self.risky_checkpointing_calls()
        yield from self.risky_model_calls()
        yield from self._accelerator_accumulation_steps()
        yield from self._calls_that_resume()
        yield from self.contradicting_loop_calls()

    # Loading
    # ----------------------------------------------------------------------------------------------

    def _calls_that_load_models(self) -> Iterator[ConfigSensitiveCall]:
        for call in self.model_load_calls():
            if not self._runs_unless_excluded(call):
                continue
            spread = self._spreads_model_over_gpus(keyword_argument(call, "device_map"), call)
            if spread is not None:
                is_trained = spread and self.is_model_trained(call)
                yield self._describe_call("spread device map" if is_trained else "device map", call)
            if literal_value(keyword_argument(call, "low_cpu_mem_usage")) is True:
                yield self._describe_call("low memory load", call)
        quantizing = [call for call in self.calls if called_function_name(call) == "BitsAndBytesConfig"]
        for call in (*self.model_load_calls(), *quantizing):
            if not self._runs_unless_excluded(call) or any(
                map(_ABOUT_QUANTIZATION.search, self._enclosing_conditions(call))
            ):
                continue
            if literal_value(keyword_argument(call, "load_in_8bit")) is True:
                yield self._describe_call("8-bit weights", call)
            elif (
                call in quantizing
                and literal_value(keyword_argument(call, "load_in_4bit")) is True
                and keyword_argument(call, "bnb_4bit_quant_storage") is None
                and all(each.arg is not None for each in call.keywords)
            ):
                yield self._describe_call("4-bit weights", call)

    def _spreads_model_over_gpus(self, value: ast.expr | None, call: ast.Call) -> bool | None:
        """Return whether a device map spreads the model over several GPUs; None if there may be no device map."""
        if isinstance(value, ast.Name):
            values = self._all_values_of_variable(value.id, call)
            kinds = {
                self._spreads_model_over_gpus(each, call) for each in values if not isinstance(each, ast.Name)
            }
            return kinds.pop() if len(kinds) == 1 and len(values) >= 1 else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value in _SPREAD
        return False if isinstance(value, ast.Dict) and value.keys else None

    def _loads_before_rendezvous(self) -> Iterator[ConfigSensitiveCall]:
        """Yield loads of a model between `HfDeepSpeedConfig` and the rendezvous of the processes."""
        for start in self.calls:
            if called_function_name(start) != "HfDeepSpeedConfig" or self.referenced & _RENDEZVOUS:
                continue
            for call in self.model_load_calls():
                if self._is_after_node(call, start) and self._is_unconditional(call):
                    yield self._describe_call("load before rendezvous", call)
        if _ZERO_INIT_HANDLED.search(self.text) or "OnDevice" in self.referenced:
            return
        for start in self.calls:
            model = keyword_argument(start, "model")
            if not is_deepspeed_initialize(start) or not isinstance(model, ast.Name):
                continue
            for call in self.model_load_calls():
                is_model = (
                    self._is_result_assigned_to(call, model.id) and len(self.values.get(model.id, [])) == 1
                )
                if is_model and self._is_after_node(start, call) and self._is_unconditional(call):
                    yield self._describe_call("whole model", call)

    def _nested_zero_init_contexts(self) -> Iterator[ConfigSensitiveCall]:
        """Yield `zero.Init` contexts that are nested in another one, or active even below stage 3."""
        for call in self.calls:
            is_inner = any(
                isinstance(parent, ast.With | ast.AsyncWith)
                and child in parent.body
                and any(_is_zero_init(item.context_expr) for item in parent.items)
                for parent, child in self._ancestors_of_node(call)
                if not isinstance(child, ast.FunctionDef | ast.ClassDef)
            )
            if (
                _is_zero_init(call)
                and keyword_argument(call, "enabled") is None
                and self._runs_unless_excluded(call)
            ):
                yield self._describe_call("partitioned construction", call)
            if is_inner and (_is_zero_init(call) or is_deepspeed_initialize(call)) and self._may_run(call):
                yield self._describe_call("nested construction", call)

    def _accelerator_accumulation_steps(self) -> Iterator[ConfigSensitiveCall]:
        """Yield the only `Accelerator(...)` call of a program, with its accumulation steps."""
        starts = [call for call in self.calls if called_function_name(call) == "Accelerator"]
        if len(starts) != 1 or not self._may_run(starts[0]) or "gradient_accumulation_steps" in self.assigned:
            return
        steps = keyword_argument(starts[0], "gradient_accumulation_steps")
        is_open = any(each.arg in (None, "gradient_accumulation_plugin") for each in starts[0].keywords)
        value = 1 if steps is None else literal_value(steps)
        if isinstance(steps, ast.Name):
            values = self._all_values_of_variable(steps.id, starts[0])
            value = literal_value(values[0]) if len(values) == 1 else None
        if not is_open and isinstance(value, int) and not isinstance(value, bool):
            yield self._describe_call("accumulation", starts[0], value)

    # Saving
    # ----------------------------------------------------------------------------------------------

    def _calls_that_save_weights(self) -> Iterator[ConfigSensitiveCall]:
        wrapped = self._names_of_wrapped_models() | self._models_trained_in_place()
        for name, call in self._names_of_call_results("unwrap_model").items():
            if call.args and line_number_of(call) > wrapped.get(
                ast.unparse(call.args[0]), line_number_of(call)
            ):
                wrapped.setdefault(name, line_number_of(call))
        engines = {
            name
            for name, call in self._names_of_call_results("initialize").items()
            if is_deepspeed_initialize(call)
        }
        trainers = frozenset(
            name for name, values in self.values.items() for value in values if _is_trainer_call(value)
        )
        for call in self.calls:
            name = called_function_name(call)
            if not isinstance(call.func, ast.Attribute) or not self._runs_unless_excluded(call, _ABOUT_STAGE):
                continue
            owner = ast.unparse(call.func.value)
            on_one_rank = self._runs_on_one_rank(call)
            if on_one_rank and (
                (name in ("save_checkpoint", "save_16bit_model", "save_fp16_model") and owner in engines)
                or (name == "save_state" and owner.endswith("accelerator"))
            ):
                yield self._describe_call("collective save on one rank", call)
            elif on_one_rank and (
                (name == "save_model" and owner in trainers)
                or (name == "get_state_dict" and owner.endswith("accelerator"))
                or name in ("_zero3_consolidated_16bit_state_dict", "_consolidated_16bit_state_dict")
            ):
                yield self._describe_call("collective save of stage 3 on one rank", call)
            elif self._is_partitioned_module(owner, wrapped, call) and (
                (name == "save_pretrained" and keyword_argument(call, "state_dict") is None)
                or (name == "state_dict" and self._is_state_dict_saved(call))
            ):
                yield self._describe_call("save without gathering", call)

    def _models_trained_in_place(self) -> dict[str, int]:
        """Map each model that `Trainer.train` passes to DeepSpeed to the line on which it is wrapped.

        At stage 3, DeepSpeed partitions the parameters of the module in place. Programs that gather the weights
        themselves expect that, and are left out.
        """
        trained: dict[str, int] = {}
        if "get_state_dict" in self.referenced or "GatheredParameters" in self.referenced:
            return trained
        for name, values in self.values.items():
            trainer = values[0]
            if len(values) != 1 or not isinstance(trainer, ast.Call) or not _is_trainer_call(trainer):
                continue
            model = keyword_argument(trainer, "model")
            model_name = model.id if isinstance(model, ast.Name) else ""
            starts = [
                line_number_of(call)
                for call in self.calls
                if isinstance(call.func, ast.Attribute)
                and call.func.attr == "train"
                and ast.unparse(call.func.value) == name
                and self._enclosing_function(call) is self._enclosing_function(trainer)
                and self._runs_unless_excluded(call)
            ]
            if not starts:
                continue
            trained[f"{name}.model"] = min(starts)
            assigned_at = [
                line_number_of(each) for each in self.values.get(model_name, []) if each is not None
            ]
            if model_name and max(assigned_at, default=0) < min(starts):
                trained[model_name] = min(starts)
        return trained

    def _is_partitioned_module(self, owner: str, wrapped: dict[str, int], call: ast.Call) -> bool:
        """Return whether the object that a method is called on is a module with partitioned parameters."""
        base = owner.removesuffix(".module")
        unwrapped = re.fullmatch(r"(?:\w+\.)*unwrap_model\((.+)\)", base)
        base = unwrapped[1] if unwrapped else base
        gathers = any(
            isinstance(parent, ast.With) and "GatheredParameters" in ast.unparse(parent.items[0])
            for parent, _ in self._ancestors_of_node(call)
        )
        return not gathers and base in wrapped and line_number_of(call) > wrapped[base]

    def _is_state_dict_saved(self, call: ast.Call) -> bool:
        """Return whether a state dict is saved to a file immediately: `torch.save(model.state_dict(), path)`."""
        parent = self.parents.get(id(call))
        return (
            isinstance(parent, ast.Call)
            and called_function_name(parent) in ("save", "save_file")
            and call in parent.args
        )

    def _runs_on_one_rank(self, node: ast.AST) -> bool:
        for parent, child in self._ancestors_of_node(node):
            if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
                return False
            is_body = isinstance(parent, ast.If) and child in parent.body
            tests = _split_conjunction(parent.test) if isinstance(parent, ast.If) else []
            if is_body and any(_RANK_0.fullmatch(ast.unparse(test)) for test in tests):
                return True
        return False

    def _calls_that_resume(self) -> Iterator[ConfigSensitiveCall]:
        """Yield calls of `Trainer.train` that resume from a checkpoint, and loads of an engine without optimizer."""
        for call in self.calls:
            value = keyword_argument(call, "resume_from_checkpoint")
            if (
                called_function_name(call) == "train"
                and literal_value(value)
                and self._is_unconditional(call)
            ):
                yield self._describe_call("resume", call)

    # Devices and engines
    # ----------------------------------------------------------------------------------------------

    def _calls_that_move_model_to_gpu(self) -> Iterator[ConfigSensitiveCall]:
        """Yield calls that move a model to the GPU just before `deepspeed.initialize` partitions it."""
        for start in self.calls:
            model = keyword_argument(start, "model")
            if not is_deepspeed_initialize(start) or not isinstance(model, ast.Name):
                continue
            for call in self.calls:
                is_move = called_function_name(call) == "cuda" or (
                    called_function_name(call) == "to" and _moves_to_gpu(call)
                )
                if not is_move or not isinstance(call.func, ast.Attribute):
                    continue
                is_model = last_dotted_name(call.func.value) == model.id or self._is_result_assigned_to(
                    call, model.id
                )
                if is_model and self._is_after_node(start, call) and self._is_unconditional(call):
                    yield self._describe_call("move to device", call)

    def _calls_of_accelerator_prepare(self) -> Iterator[ConfigSensitiveCall]:
        prepares = [
            call
            for call in self.calls
            if called_function_name(call) == "prepare"
            and isinstance(call.func, ast.Attribute)
            and last_dotted_name(call.func.value) == "accelerator"
        ]
        sets_batch = "train_micro_batch_size_per_gpu" in self.strings
        for call in prepares:
            names = [last_dotted_name(argument) for argument in call.args]
            if not names or not all(names) or not self._runs_unless_excluded(call):
                continue
            if not sets_batch and any(map(MODEL.search, names)) and not any(map(_LOADER.search, names)):
                yield self._describe_call("prepare without loader", call)
            for name in names:
                values = self._all_values_of_variable(name, call)
                if values and "DummyOptim" not in self.referenced and all(map(_is_optimizer, values)):
                    yield self._describe_call("own optimizer", call)
                if values and "DummyScheduler" not in self.referenced and all(map(_is_scheduler, values)):
                    yield self._describe_call("own scheduler", call)
        yield from self._optimizers_prepared_alone(prepares)
        for call in self.calls:
            if not prepares or not self._is_unconditional(call):
                continue
            if called_function_name(call) == "DummyOptim":
                yield self._describe_call("dummy optimizer", call)
            elif (
                called_function_name(call) == "DummyScheduler"
                and keyword_argument(call, "lr_scheduler_callable") is None
            ):
                yield self._describe_call("dummy scheduler", call)

    def _optimizers_prepared_alone(self, prepares: list[ast.Call]) -> Iterator[ConfigSensitiveCall]:
        """Yield calls that prepare an optimizer separately from the model."""
        names = {id(call): [last_dotted_name(argument) for argument in call.args] for call in prepares}
        optimizers = {
            name
            for call in prepares
            for name in names[id(call)]
            if (values := self._all_values_of_variable(name, call))
            # `optimizer = accelerator.prepare(optimizer)` gives the name its wrapped value.
            and all(_is_optimizer(value) or value in prepares for value in values)
            and not all(value in prepares for value in values)
        }
        with_model = [call for call in prepares if any(map(MODEL.search, names[id(call)]))]
        if not with_model or any(not optimizers.isdisjoint(names[id(call)]) for call in with_model):
            return
        for call in prepares:
            if all(names[id(call)]) and optimizers & set(names[id(call)]) and self._is_unconditional(call):
                yield self._describe_call("optimizer prepared alone", call)

    def _calls_of_deepspeed_initialize(self) -> Iterator[ConfigSensitiveCall]:
        starts = [call for call in self.calls if is_deepspeed_initialize(call)]
        configs = {
            ast.unparse(config)
            if (config := keyword_argument(call, "config", "config_params")) is not None
            else ""
            for call in starts
        }
        if len(configs) != 1 or not all(
            self._is_unchanged_config(keyword_argument(call, "config", "config_params"), call)
            for call in starts
        ):
            return
        for call in starts:
            has_all = (
                all(each.arg is not None for each in call.keywords) and len(call.args) < _OPTIMIZER_POSITION
            )
            if has_all and not any(isinstance(each, ast.Starred) for each in call.args):
                optimizer = keyword_argument(call, "optimizer")
                is_none = optimizer is None or (
                    isinstance(optimizer, ast.Constant) and optimizer.value is None
                )
                if is_none and self._runs_unless_excluded(call, _ABOUT_STAGE):
                    yield self._describe_call("initialize without optimizer", call)
                    yield from self._loads_of_engine(call)

    def _loads_of_engine(self, start: ast.Call) -> Iterator[ConfigSensitiveCall]:
        """Yield the calls that load a checkpoint into the engine that a call of `initialize` returns."""
        engines = [name for name, call in self._names_of_call_results("initialize").items() if call is start]
        for call in self.calls:
            if (
                called_function_name(call) == "load_checkpoint"
                and isinstance(call.func, ast.Attribute)
                and ast.unparse(call.func.value) in engines
                and len(self.values.get(ast.unparse(call.func.value), [])) <= 1
                and self._is_after_node(call, start)
                and self._runs_unless_excluded(call, _ABOUT_STAGE)
            ):
                yield self._describe_call("load without optimizer", call)

    def _is_unchanged_config(self, config: ast.expr | None, call: ast.Call) -> bool:
        """Return whether a config is an unmodified file: a path, a program argument or a `json.load` result."""
        if config is None or isinstance(config, ast.Attribute) or isinstance(literal_value(config), str):
            return True
        if isinstance(config, ast.Call):
            return called_function_name(config) in ("load", "loads") and "json" in ast.unparse(config.func)
        values = self._all_values_of_variable(config.id, call) if isinstance(config, ast.Name) else []
        return bool(values) and all(
            self._is_unchanged_config(value, call) for value in values if not isinstance(value, ast.Name)
        )

    def _models_loaded_before_arguments(self) -> Iterator[ConfigSensitiveCall]:
        """Yield models that are loaded before the training arguments exist, and therefore not partitioned."""
        if _ZERO_INIT_HANDLED.search(self.text):
            return
        for start in self.calls:
            if (
                not called_function_name(start).endswith("TrainingArguments")
                or keyword_argument(start, "deepspeed") is None
            ):
                continue
            for call in self.model_load_calls():
                if (
                    self._is_after_node(start, call)
                    and self._runs_unless_excluded(call)
                    and self._runs_unless_excluded(start)
                ):
                    yield self._describe_call("model before arguments", call)

    def _models_loaded_before_plugin(self) -> Iterator[ConfigSensitiveCall]:
        """Yield models that are loaded before the calls by which a program learns of `accelerate launch`'s stage."""
        starts = [
            call
            for call in self.calls
            if called_function_name(call) in _STARTS_PLUGIN
            or called_function_name(call).endswith("TrainingArguments")
        ]
        for call in self.model_load_calls():
            is_first = any(self._is_after_node(start, call) for start in starts)
            if is_first and not any(self._is_after_node(call, start) for start in starts):
                yield self._describe_call("model before plugin", call)

    def _models_never_prepared(self) -> Iterator[ConfigSensitiveCall]:
        """Yield models that `zero3_init_flag` partitions but that no engine ever gathers."""
        starts = [call for call in self.calls if called_function_name(call) == "Accelerator"]
        if len(starts) != 1 or _ZERO_INIT_HANDLED.search(self.text):
            return
        # Diffusers and others do not partition while they load.
        partitioned = {
            alias.asname or alias.name
            for node in self.module.nodes
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "transformers"
            for alias in node.names
        }
        for call in self.model_load_calls():
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            parent = self.parents.get(id(call))
            if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
                continue
            if last_dotted_name(owner) not in partitioned:
                continue
            name = parent.targets[0].id if isinstance(parent.targets[0], ast.Name) else ""
            if not name or not self._is_after_node(call, starts[0]) or not self._is_unconditional(call):
                continue
            # The function of a call inside an argument, `unet(encoder(batch))`, is not passed on itself.
            is_argument = any(
                isinstance(each, ast.Name) and each.id == name and not self._is_function_called(each)
                for other in self.calls
                for argument in (*other.args, *(word.value for word in other.keywords))
                for each in ast.walk(argument)
            )
            is_run = any(
                last_dotted_name(other.func) == name
                or (
                    isinstance(other.func, ast.Attribute)
                    and other.func.attr in _FORWARDS
                    and last_dotted_name(other.func.value) == name
                )
                for other in self.calls
            )
            if is_run and not is_argument and len(self.values.get(name, [])) == 1:
                yield self._describe_call("unprepared model", call)


_STARTS_PLUGIN = frozenset(
    {"Accelerator", "DeepSpeedPlugin", "HfDeepSpeedConfig", "HfArgumentParser", "TrlParser"}
    | {"SFTConfig", "DPOConfig", "GRPOConfig", "KTOConfig", "ORPOConfig", "RewardConfig", "PPOConfig"}
)
"""Calls that create DeepSpeedPlugin, at once or through training arguments."""
_ABOUT_STAGE = re.compile(
    r"zero_?(?:stage|opt|[0-3])|stage|fsdp|deepspeed_plugin|is_deepspeed", re.IGNORECASE
)
_RENDEZVOUS = frozenset(
    {
        "init_distributed",
        "init_process_group",
        "TrainingArguments",
        "HfArgumentParser",
        "TrlParser",
        "Accelerator",
        "PartialState",
    }
)
"""Functions that connect the processes of a job."""
_FORWARDS = frozenset({"generate", "encode", "forward"})
_OPTIMIZER_POSITION = 3
"""Position of `optimizer` in `deepspeed.initialize(args, model, optimizer, ...)`, counted from 1."""


def _is_zero_init(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and called_function_name(node) == "Init"
        and ast.unparse(node.func).endswith("zero.Init")
    )


def _is_trainer_call(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and called_function_name(value).endswith("Trainer")


def _is_optimizer(value: ast.expr) -> bool:
    return (
        isinstance(value, ast.Call) and called_function_name(value) in _OPTIMIZERS | _OPTIMIZERS_OF_DEEPSPEED
    )


def _is_scheduler(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and _SCHEDULERS.fullmatch(called_function_name(value)) is not None


def _split_conjunction(test: ast.expr) -> list[ast.expr]:
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def _moves_to_gpu(call: ast.Call) -> bool:
    """Return whether a `.to(...)` call moves its object to a GPU, rather than to the CPU or to another dtype."""
    argument = call.args[0] if len(call.args) == 1 and not call.keywords else keyword_argument(call, "device")
    text = ast.unparse(argument) if argument is not None else ""
    return bool(re.search(r"device|cuda|gpu|local_rank", text)) and "cpu" not in text
