"""DeepSpeed strategies of Lightning in Python programs, and the arguments that Lightning rejects with them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from dsconfig.core.json_types import NamedTuple
from dsconfig.core.version_ranges import parse_version_range
from dsconfig.document import Document
from dsconfig.launch.calls_of_program import ProgramCalls
from dsconfig.launch.framework_configs import LIGHTNING_STRATEGIES
from dsconfig.launch.python.name_bindings import last_dotted_name
from dsconfig.launch.python.syntax_trees import (
    called_function_name,
    keyword_argument,
    literal_value,
    parse_module,
)
from dsconfig.launch.requirements import find_requirements


class LightningProblem(NamedTuple):
    """Arguments of a Lightning program that fail with a DeepSpeed strategy."""

    line: int
    message: str
    help: str
    since: str = ""
    """First DeepSpeed release that behaves this way; empty for all releases."""
    fixed_in_lightning: str = ""
    """First version of Lightning without the problem; empty if every version has it."""


def lightning_problems(program: Document) -> tuple[LightningProblem, ...]:
    """Return what Lightning rejects in a Python source; empty for any other document.

    Sources: lightning pytorch/trainer/connectors/accelerator_connector.py; pytorch/strategies/deepspeed.py;
    fabric/plugins/precision/deepspeed.py.
    """
    if not program.name.endswith(".py") or program.is_in_program:
        return ()
    if not _WORDS.search(program.text):
        return ()
    return tuple(
        each
        for each in _cached_problems(program.name, program.text)
        if not each.fixed_in_lightning or _is_older(program.name, each.fixed_in_lightning)
    )


_WORDS = re.compile(r"deepspeed_stage|DeepSpeedStrategy|strategy\s*=\s*[\"']deepspeed")
"""Pattern of the sources that are worth parsing."""


@lru_cache(maxsize=16)
def _cached_problems(name: str, text: str) -> tuple[LightningProblem, ...]:
    module = parse_module(name, text.encode("utf-8", "surrogatepass"))
    try:
        return tuple(_LightningCalls(module).problems()) if module else ()
    except RecursionError:  # nesting deeper than the interpreter's stack
        return ()


_PACKAGES = ("lightning", "pytorch_lightning", "lightning_fabric")
_STRATEGY = "DeepSpeedStrategy"
_STRATEGY_NAME = re.compile(r"deepspeed(?:_stage_(?P<stage>[0-3]))?(?P<offload>_offload)?(?P<nvme>_nvme)?")
_FABRIC_STRATEGIES = frozenset({*LIGHTNING_STRATEGIES, "deepspeed_stage_1_offload"})
"""Names that `Fabric` knows; the one with stage 1 and offload since Lightning 2.2."""
_ACCELERATORS = frozenset({"cpu", "mps", "tpu", "hpu", "ipu"})
_DOUBLE_PRECISION = frozenset({64, "64", "64-true"})
_SEVERAL = 2
_ARGUMENTS = frozenset((
    "accelerator", "zero_optimization", "stage", "remote_device", "offload_optimizer", "offload_parameters",
    "offload_params_device", "nvme_path", "params_buffer_count", "params_buffer_size", "max_in_cpu",
    "offload_optimizer_device", "optimizer_buffer_count", "block_size", "queue_depth", "single_submit",
    "overlap_events", "thread_count", "pin_memory", "sub_group_size", "contiguous_gradients", "overlap_comm",
    "allgather_partitions", "reduce_scatter", "allgather_bucket_size", "reduce_bucket_size",
    "zero_allow_untested_optimizer", "logging_batch_size_per_gpu", "config", "logging_level", "parallel_devices",
    "cluster_environment", "loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis", "min_loss_scale",
    "partition_activations", "cpu_checkpointing", "contiguous_memory_optimization",
    "synchronize_checkpoint_boundary", "load_full_weights", "precision_plugin", "precision",
    "process_group_backend", "timeout", "exclude_frozen_parameters", "num_nodes", "partition_module",
))  # fmt: skip
"""Arguments that `DeepSpeedStrategy` of the Trainer or of Fabric has had in any release from 1.6 to 2.6.

The class has this name since 1.6; `DeepSpeedPlugin` before had others, such as `cpu_offload`.
"""


class _LightningCalls(ProgramCalls):
    """The calls of a program that configure a Trainer or a Fabric of Lightning."""

    def problems(self) -> Iterator[LightningProblem]:
        aliases = self._names_from_lightning()
        for call in self.calls:
            kind = called_function_name(call)
            if kind not in ("Trainer", "Fabric") or not self._is_from_lightning(call.func, aliases):
                continue
            strategy = self._value_of(keyword_argument(call, "strategy"), call)
            name = literal_value(strategy)
            is_object = isinstance(strategy, ast.Call) and called_function_name(strategy) == _STRATEGY
            if not self._may_run(call) or not (
                is_object or (isinstance(name, str) and name.startswith("deepspeed"))
            ):
                continue
            if isinstance(name, str):
                yield from self._unknown_name(call, kind, name)
            if isinstance(strategy, ast.Call):
                yield from self._unknown_arguments(strategy)
            yield from self._rejected_arguments(call, kind)
            if kind == "Trainer":
                yield from self._several_optimizers(aliases)
                if self._offloads_optimizer(strategy):
                    yield from self._optimizer_that_cannot_be_offloaded(aliases)

    def _names_from_lightning(self) -> frozenset[str]:
        """Return the names that are imported from Lightning's packages."""
        names = set()
        for node in self.module.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
                for alias in node.names:
                    package = module or alias.name
                    if package.partition(".")[0] in _PACKAGES:
                        names.add(alias.asname or alias.name.partition(".")[0])
        return frozenset(names)

    def _is_from_lightning(self, function: ast.expr, names: frozenset[str]) -> bool:
        while isinstance(function, ast.Attribute):
            function = function.value
        return isinstance(function, ast.Name) and function.id in names

    def _value_of(self, value: ast.expr | None, call: ast.Call) -> ast.expr | None:
        """Return an expression, or the only value of the variable that it names.

        None if the source does not show it.
        """
        if not isinstance(value, ast.Name):
            return value
        values = self._all_values_of_variable(value.id, call)
        return values[0] if len(values) == 1 and not isinstance(values[0], ast.Name) else None

    def _unknown_name(self, call: ast.Call, kind: str, name: str) -> Iterator[LightningProblem]:
        known = _FABRIC_STRATEGIES if kind == "Fabric" else frozenset(LIGHTNING_STRATEGIES)
        if name in known or "register" in self.referenced:
            return
        parts = _STRATEGY_NAME.fullmatch(name)
        advice = f"use one of {', '.join(sorted(known))}"
        if parts and parts["stage"]:
            arguments = [f"stage={parts['stage']}"]
            arguments += ["offload_optimizer=True"] if parts["offload"] else []
            advice = f"pass `strategy={_STRATEGY}({', '.join(arguments)})`"
        yield LightningProblem(
            call.lineno,
            f'`strategy` is "{name}", but `{kind}` of Lightning has no strategy of this name',
            advice,
        )

    def _unknown_arguments(self, strategy: ast.Call) -> Iterator[LightningProblem]:
        for each in strategy.keywords:
            if each.arg is not None and each.arg not in _ARGUMENTS:
                yield LightningProblem(
                    each.value.lineno,
                    f"`{_STRATEGY}` has no argument `{each.arg}`",
                    _RENAMED_ARGUMENTS.get(each.arg, "put the setting into the config: `config={...}`"),
                )

    def _rejected_arguments(self, call: ast.Call, kind: str) -> Iterator[LightningProblem]:
        accelerator = literal_value(self._value_of(keyword_argument(call, "accelerator"), call))
        if accelerator in _ACCELERATORS:
            yield LightningProblem(
                call.lineno,
                f'`accelerator` is "{accelerator}", but Lightning runs DeepSpeed on CUDA GPUs only',
                'use `accelerator="gpu"`, or another strategy',
            )
        precision = literal_value(self._value_of(keyword_argument(call, "precision"), call))
        if precision in _DOUBLE_PRECISION and not isinstance(precision, bool):
            yield LightningProblem(
                call.lineno,
                f"`precision` is {precision!r}, which Lightning rejects with a DeepSpeed strategy",
                "use 32, 16 or bf16, or another strategy",
            )
        elif precision in _TRUE_PRECISION:
            mixed = str(precision).replace("true", "mixed")
            yield LightningProblem(
                call.lineno,
                f'`precision` is "{precision}", which Lightning before {_TRUE_SINCE} rejects with a DeepSpeed strategy',
                f'use "{mixed}", or Lightning {_TRUE_SINCE} or later',
                fixed_in_lightning=_TRUE_SINCE,
            )
        algorithm = literal_value(self._value_of(keyword_argument(call, "gradient_clip_algorithm"), call))
        if kind == "Trainer" and algorithm == "value":
            yield LightningProblem(
                call.lineno,
                '`gradient_clip_algorithm` is "value", but DeepSpeed clips gradients by norm only',
                'use `gradient_clip_algorithm="norm"`',
            )

    def _several_optimizers(self, aliases: frozenset[str]) -> Iterator[LightningProblem]:
        """Yield a problem if the only module of the file returns several optimizers."""
        for method in self._configure_optimizers_of_only_module(aliases):
            returns = [each for each in ast.walk(method) if isinstance(each, ast.Return)]
            counts = {_number_of_optimizers(each.value) for each in returns}
            if len(counts) == 1 and (count := counts.pop()) >= _SEVERAL:
                yield LightningProblem(
                    returns[0].lineno,
                    f"`configure_optimizers` returns {count} optimizers, but Lightning supports only one with"
                    " DeepSpeed",
                    "use one optimizer with several parameter groups, or another strategy",
                )

    def _offloads_optimizer(self, strategy: ast.expr | None) -> bool:
        """Return whether a strategy certainly offloads the optimizer to the CPU, without a config of its own."""
        name = literal_value(strategy)
        if isinstance(name, str):
            return name.endswith("_offload")
        is_known = isinstance(strategy, ast.Call) and all(
            each.arg not in (None, "config", "offload_optimizer_device") for each in strategy.keywords
        )
        return (
            is_known
            and isinstance(strategy, ast.Call)
            and literal_value(keyword_argument(strategy, "offload_optimizer")) is True
        )

    def _optimizer_that_cannot_be_offloaded(self, aliases: frozenset[str]) -> Iterator[LightningProblem]:
        """Yield a problem if the only module creates an optimizer for GPUs, or one that DeepSpeed did not write.

        Sources: ops/adam/fused_adam.py:FusedAdam, whose kernel needs GPU tensors;
        runtime/engine.py:DeepSpeedEngine._configure_optimizer, which rejects others since 0.8.3.
        """
        for method in self._configure_optimizers_of_only_module(aliases):
            calls = [each for each in ast.walk(method) if isinstance(each, ast.Call)]
            created = [each for each in calls if called_function_name(each) in _OPTIMIZERS_FOR_GPU]
            if len(created) != 1 or any("CPU" in called_function_name(each) for each in calls):
                continue
            name = called_function_name(created[0])
            is_fused = name == "FusedAdam"
            yield LightningProblem(
                created[0].lineno,
                f"`configure_optimizers` creates `{name}`, but the strategy offloads the optimizer to the CPU, where "
                + ("it cannot run" if is_fused else "DeepSpeed accepts only its own optimizers"),
                "use `deepspeed.ops.adam.DeepSpeedCPUAdam`, or a strategy without offloading",
                "" if is_fused else "0.8.3",
            )

    def _configure_optimizers_of_only_module(self, aliases: frozenset[str]) -> Iterator[ast.FunctionDef]:
        """Yield the method `configure_optimizers` of the file's module, if the file has only one."""
        modules = [
            node
            for node in self.module.nodes
            if isinstance(node, ast.ClassDef)
            and any(
                last_dotted_name(base) == "LightningModule" and self._is_from_lightning(base, aliases)
                for base in node.bases
            )
        ]
        for node in modules if len(modules) == 1 else ():
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name == "configure_optimizers":
                    yield method


_OPTIMIZERS_FOR_GPU = frozenset({"FusedAdam", "Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "NAdam", "RAdam"})
_TRUE_PRECISION, _TRUE_SINCE = frozenset({"16-true", "bf16-true"}), "2.1"
"""Precisions that a DeepSpeed strategy accepts since this version of Lightning."""


def _is_older(program: str, version: str) -> bool:
    """Return whether the requirements near a program allow only versions of Lightning that are older."""
    for package in ("lightning", "pytorch-lightning", "lightning-fabric"):
        requirements = find_requirements(package, program)
        agreed = requirements and requirements.agreed_requirement
        if agreed:
            return parse_version_range(agreed.specifier).is_within(parse_version_range(f"<{version}"))
    return False


_RENAMED_ARGUMENTS = {
    "cpu_offload": "pass `offload_optimizer=True`",
    "cpu_offload_params": "pass `offload_parameters=True`",
    "cpu_offload_use_pin_memory": "pass `pin_memory=True`",
    "save_full_weights": "remove it, and use `zero_to_fp32.py` for a whole checkpoint",
    "offload_param": "pass `offload_parameters=True`",
    "offload_params": "pass `offload_parameters=True`",
    "zero_stage": "pass `stage`",
}
"""Advice for arguments of `DeepSpeedPlugin` before Lightning 1.5, and of other libraries."""


def _number_of_optimizers(value: ast.expr | None) -> int:
    """Return how many optimizers `configure_optimizers` returns, or 0 if that is unclear.

    Lightning accepts `[optimizers], [schedulers]` and a list or tuple of optimizers.
    """
    if not isinstance(value, ast.Tuple | ast.List) or any(
        isinstance(each, ast.Starred) for each in value.elts
    ):
        return 0
    if value.elts and isinstance(value.elts[0], ast.List):
        return (
            0
            if any(isinstance(each, ast.Starred) for each in value.elts[0].elts)
            else len(value.elts[0].elts)
        )
    is_each_optimizer = all(
        isinstance(each, ast.Name | ast.Attribute | ast.Call)
        and re.search(r"opt|adam|sgd", ast.unparse(each), re.IGNORECASE)
        and not re.search(r"sched|lr_|warmup", ast.unparse(each), re.IGNORECASE)
        for each in value.elts
    )
    return len(value.elts) if is_each_optimizer else 0
