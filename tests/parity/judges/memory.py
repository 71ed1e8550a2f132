"""What `dsconfig` computes for a trial of `memory_engine`, beside what the engine was seen to hold."""

from __future__ import annotations

from typing import Any, NamedTuple

from dsconfig.memory.autograd_graph import LoraAdapter
from dsconfig.memory.config_values import ConfigValues
from dsconfig.memory.engines.base_engine import SAVE, Engine
from dsconfig.memory.engines.engine_setup import OptimizerCost
from dsconfig.memory.engines.param_groups import GRAM
from dsconfig.memory.estimates import PHASES, simulate, upper_bound_of_peak
from dsconfig.memory.memory_ledger import MemoryLedger
from dsconfig.memory.models.architecture import Architecture, MicroBatch
from dsconfig.memory.models.from_hf_config import architecture_of
from dsconfig.memory.models.record_pass_by_family import record_forward_pass
from dsconfig.memory.setup_from_config import (
    ADAM,
    FOREACH,
    FUSED,
    SECTIONS,
    SINGLE,
    TrainingJob,
    setup_of,
    zenflow_section,
)
from dsconfig.resolve.effective_values import effective_values_of

NAMES = {
    "all_gather": "all_gather",
    "broadcast": "broadcast",
    "all_to_all_single": "all_to_all",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_reduce": "all_reduce",
    "reduce": "reduce",
}
TYPES = {"int8": 1, "bfloat16": 2, "float16": 2, "float32": 4, "int32": 4, "int64": 8}
SCALARS = 16
"""Elements of a collective that carries norms and flags: those are not counted."""


class Prediction(NamedTuple):
    """Bytes, as one memory: an engine on a CPU has only one. `device`: what of them a GPU would hold."""

    parameters: int
    largest: int
    """Those of the module that has most of its own."""
    at_rest: int
    host: int
    peak: dict[str, int]
    device: dict[str, int]
    bound: dict[str, int]
    calls: dict[tuple[str, str, int], tuple[int, int]]


def shape(model: dict[str, Any]) -> Architecture:
    """The shape of a trial's model."""
    if model["kind"] == "plain":
        sizes = (model["hidden_size"], model["num_hidden_layers"], model["intermediate_size"])
        return Architecture("plain", *sizes, trained_fraction=model.get("train_fraction", 1.0))
    return architecture_of({**model, "model_type": model["kind"]})


def rule(trial: dict[str, Any], is_whole: bool) -> OptimizerCost:
    """The optimizer, as torch runs it on a CPU."""
    section = trial["config"].get("optimizer", {})
    name, options = trial.get("client_optimizer") or (section["type"], section["params"])
    if name == "SGD":
        return OptimizerCost(name, 4 if options.get("momentum") else 0, 0)
    if name == "Adagrad":
        return OptimizerCost(
            name,
            4,
            0,
            largest_tensor_bytes=4,
            allocates_states_early=True,
            is_client="client_optimizer" in trial,
        )
    if offloads(trial) and name == "AdamW" and not options.get("torch_adam"):
        return OptimizerCost(name, 8, 0, is_fused_adam=True)  # DeepSpeed's own, which works in place
    way = FUSED if options.get("fused") else FOREACH if options.get("foreach") else SINGLE
    states, temporary = ADAM[way]
    alone = way == SINGLE and is_whole
    muon = options.get("ns_method", GRAM) if name == "Muon" else ""
    return OptimizerCost(name, states, 0 if alone else temporary, temporary if alone else 0, muon_method=muon)


def offloads(trial: dict[str, Any]) -> bool:
    """Whether a part of the optimizer is on the host."""
    return "offload_optimizer" in trial["config"]["zero_optimization"] and "client_optimizer" not in trial


def adapter(lora: dict[str, Any] | None, full: bool) -> LoraAdapter | None:
    """The adapter of a trial."""
    if lora is None:
        return None
    targets = lora["target_modules"]
    names = frozenset() if targets == "all-linear" else frozenset(targets)
    return LoraAdapter(lora["r"], names, lora["lora_dropout"], full)


def simulated(trial: dict[str, Any], release: str) -> tuple[MemoryLedger, Engine]:
    """The engine of this trial on paper, after a step."""
    sequence = {"sequence_parallel_size": trial["sequence_parallel"]} if "sequence_parallel" in trial else {}
    shown = effective_values_of(
        trial["config"] | sequence, trial["world_size"], release, "deepspeed", keys=SECTIONS
    )
    counts = {found.key: found.value for found in shown.values if found.origin != "ignored"}
    values = ConfigValues(counts, zenflow_section(trial["config"]))
    model = trial["model"]
    micro = MicroBatch(values.count("train_micro_batch_size_per_gpu"), trial["length"])
    job = TrainingJob(release, trial["world_size"], micro, zero_init=bool(model.get("zero_init")))
    setup = setup_of(values, job)
    own = (
        setup.optimizer.muon_method and setup.quirks.muon_has_its_own_adam
    )  # an Adam that is the same everywhere
    optimizer = setup.optimizer if own else rule(trial, setup.is_unsharded)
    built = 4 if model.get("dtype", "float32") == "float32" else 2
    setup = setup._replace(optimizer=optimizer, rank=trial["rank"] // setup.tp_size, has_separate_host=False)
    setup = setup._replace(build_itemsize=built, gpus_per_node=trial.get("node", 1))
    work = MicroBatch(
        values.count("train_micro_batch_size_per_gpu"),
        trial["length"],
        setup.itemsize,
        setup.autocast,
        model.get("attention", "sdpa"),
        bool(model.get("checkpointing")),
        setup.memory_efficient_linear,
        adapter(model.get("lora"), setup.keeps_fp32_adapters),
        setup.tensor_parallel,
        setup.sp_size,
        setup.ep_size,
        trial.get("imbalance", 1),
        on_cpu=True,
        image_tokens=model.get("image_tokens"),
    )
    return simulate(setup, record_forward_pass(shape(model), work), work)


def predict(trial: dict[str, Any], release: str) -> Prediction:
    """What this engine should hold."""
    ledger, engine = simulated(trial, release)
    phases = [*PHASES, *([SAVE] if SAVE in ledger.combined.peaks else [])]
    peak = {phase: ledger.combined.peaks[phase].bytes for phase in phases}
    device = {phase: ledger.rank.peaks[phase].bytes for phase in phases}
    bounds = {phase: upper_bound_of_peak(count, phase, engine) for phase, count in peak.items()}
    calls: dict[tuple[str, str, int], tuple[int, int]] = {}
    for (phase, name, width, _), (count, elements) in engine.calls.items():
        if trial["world_size"] > 1 and elements > SCALARS * count:
            before = calls.get((phase, name, width), (0, 0))
            calls[phase, name, width] = (before[0] + count, before[1] + elements)
    own = max(sum(weight.numel for weight in module.weights) for module in engine.tape.modules)
    return Prediction(
        engine.model_numel, own, ledger.combined.total, ledger.host.total, peak, device, bounds, calls
    )


def sent(measured: dict[str, Any]) -> dict[tuple[str, str, int], tuple[int, int]]:
    """The collectives that the engine called, without those of single numbers."""
    found: dict[tuple[str, str, int], tuple[int, int]] = {}
    for phase, calls in measured["collectives"].items():
        if phase == SAVE:  # no part of a step
            continue
        for name, (count, elements) in calls.items():
            if name.endswith(" float32") and name.replace(" float32", " int8") in calls:  # scales
                continue
            kind, _, dtype = name.partition(" ")
            counts = elements > SCALARS * count or kind == "broadcast"
            if counts and dtype in TYPES and kind in NAMES:
                key = (phase, NAMES[kind], TYPES[dtype])
                before = found.get(key, (0, 0))
                found[key] = (before[0] + count, before[1] + elements)
    return {key: (count, elements) for key, (count, elements) in found.items() if elements > SCALARS * count}
