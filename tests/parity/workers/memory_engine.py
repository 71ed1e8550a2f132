"""What one rank of a real DeepSpeed engine allocates, at any world size, in one process on a CPU.

Reads trials from stdin, a JSON line each: `{"id", "config", "model", "world_size", "rank", …}`.
Answers with a line that starts with `=`: bytes at rest and at the peaks of the last step, and what was
sent. The process group is torch's `fake` one: each collective returns at once. torch's profiler records
each allocation, and marks between the phases place it. Nothing of `dsconfig` is imported here.
"""

import contextlib
import functools
import gc
import importlib
import json
import logging
import os
import signal
import sys
import traceback
import warnings
from typing import Any

os.environ.update(DS_ACCELERATOR="cpu", MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", DS_SKIP_CUDA_CHECK="1")
os.environ.update(RANK="0", LOCAL_RANK="0", LOCAL_SIZE="1", WORLD_SIZE="1", KINETO_LOG_LEVEL="5")
os.environ.update(OMP_NUM_THREADS="1", TORCHDYNAMO_DISABLE="1", HF_HUB_OFFLINE="1")
logging.disable(logging.WARNING)
warnings.filterwarnings("ignore")

import forks  # noqa: E402
import memory_autocast  # noqa: E402
import memory_experts  # noqa: E402
import memory_kernels  # noqa: E402
import memory_models  # noqa: E402
import memory_processes  # noqa: E402
import memory_recording  # noqa: E402
import memory_swapping  # noqa: E402
import memory_zenflow  # noqa: E402
import torch  # noqa: E402
import torch.distributed  # noqa: E402
import torch.testing._internal.distributed.fake_pg  # noqa: E402  registers the backend

COLLECTIVES = [
    "all_reduce",
    "all_gather",
    "all_gather_into_tensor",
    "_all_gather_base",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "_reduce_scatter_base",
    "reduce",
    "broadcast",
    "all_to_all_single",
    "all_to_all",
]
LOADING = ("build", "initialize", "placed")
"""Marks before the first pass; from `placed` on the model is where the engine has it."""
phase, imbalance = "build", 1
calls: dict[str, dict[str, list[int]]] = {}


def size(value: Any) -> tuple[int, str]:
    """Elements and type of a tensor, or of a list of them."""
    if isinstance(value, torch.Tensor):
        return value.numel(), str(value.dtype).removeprefix("torch.")
    if isinstance(value, (list, tuple)) and value:
        sizes = [size(item) for item in value]
        return sum(count for count, _ in sizes), sizes[0][1]
    return 0, "-"


def wrap_collectives() -> None:
    """Count calls and the elements of the larger tensor, by phase, name and type."""

    def wrap(name: str, function: Any) -> Any:
        def inner(*args: Any, **named: Any) -> Any:
            elements, kind = max((size(x) for x in [*args, *named.values()]), default=(0, "-"))
            cell = calls.setdefault(phase, {}).setdefault(f"{name} {kind}", [0, 0])
            cell[0] += 1
            cell[1] += elements
            said = function(*args, **named)
            if name == "all_to_all_single":  # what comes back has to be numbers
                into, out_of = (*args, *(named[part] for part in ("output", "input") if part in named))[:2]
                times = imbalance if into.dtype == torch.int32 else 1  # how many tokens each expert gets
                if into.shape == out_of.shape:
                    into.copy_(out_of * times if times > 1 else out_of)
                else:
                    into.zero_()
            return said

        return inner

    for name in COLLECTIVES:
        if hasattr(torch.distributed, name):
            setattr(torch.distributed, name, wrap(name, getattr(torch.distributed, name)))


def prepare() -> None:
    """Import everything that an engine needs, once for all children."""
    torch.set_num_threads(1)
    wrap_collectives()
    import deepspeed

    backend = sys.modules.get("deepspeed.comm.torch")
    if hasattr(backend, "build_shm_op"):
        backend.build_shm_op = lambda: None  # type: ignore[union-attr]  # compiled, a minute, for nothing here
    cpu = deepspeed.accelerator.get_accelerator()
    for name in ("is_fp16_supported", "is_bf16_supported"):
        setattr(cpu, name, lambda: True)  # as the accelerators have it that people train on
    for name in ("deepspeed.runtime.zero.muon.muon_optimizer", "torch._dynamo", "torch._inductor.compile_fx"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    memory_models.import_all()
    tell_places()
    memory_autocast.stand_in()
    memory_kernels.stand_in()
    memory_swapping.stand_in()
    memory_experts.stand_in()
    stand_in_for_products()
    memory_processes.stand_in()
    memory_zenflow.stand_in()
    for module in [found for name, found in sys.modules.items() if name.startswith("deepspeed.")]:
        for name in ("assert_ints_same_as_other_ranks", "assert_lst_len_same_as_other_ranks"):
            if hasattr(module, name):
                setattr(module, name, lambda *_, **__: None)  # the other ranks do not exist


def mark(name: str) -> None:
    """Begin a phase."""
    global phase  # noqa: PLW0603
    phase = name.split(" ", maxsplit=1)[0]
    with torch.profiler.record_function(f"MARK {name}"):
        pass


def stand_in_for_products() -> None:
    """Let Muon's products be zeros: in half precision a CPU takes minutes for them, and more memory."""
    try:
        from deepspeed.runtime.zero.muon import original_muon
    except ImportError:
        return

    def product(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return one.new_zeros(*one.shape[:-1], other.shape[-1])

    def wrapped(function: Any) -> Any:
        def inner(*args: Any, **named: Any) -> Any:
            real = torch.Tensor.__matmul__
            torch.Tensor.__matmul__ = product  # type: ignore[method-assign,assignment]
            try:
                return function(*args, **named)
            finally:
                torch.Tensor.__matmul__ = real  # type: ignore[method-assign]

        return inner

    for name in ("zeropower_via_newtonschulz5", "zeropower_via_gram_newtonschulz"):
        if hasattr(original_muon, name):
            setattr(original_muon, name, wrapped(getattr(original_muon, name)))


def tell_places() -> None:
    """Mark where the model is moved to its device, and what an engine that offloads does on the host."""
    import deepspeed.runtime.engine
    from deepspeed.runtime.zero import stage3, stage_1_and_2

    def wrapped(function: Any, before: str = "", after: str = "") -> Any:
        def inner(*args: Any, **named: Any) -> Any:
            with torch.profiler.record_function(f"MARK {before}") if before else contextlib.nullcontext():
                said = function(*args, **named)
            if after:
                mark(after)
            return said

        return inner

    engine = deepspeed.runtime.engine.DeepSpeedEngine
    engine._configure_distributed_model = wrapped(engine._configure_distributed_model, after="placed 0")
    third, others = stage3.DeepSpeedZeroOptimizer_Stage3, stage_1_and_2.DeepSpeedZeroOptimizer
    third._create_fp32_partitions = wrapped(third._create_fp32_partitions, "on host")
    third.has_overflow = wrapped(third.has_overflow, "on host")
    for kind in (third, others):
        kind.initialize_optimizer_states = wrapped(kind.initialize_optimizer_states, "on host")


def build(trial: dict[str, Any]) -> tuple[Any, list[tuple[int, bool]]]:
    """The engine, and elements and training of each parameter."""
    import deepspeed

    spec, config = trial["model"], trial["config"]
    torch.set_default_dtype(getattr(torch, spec.get("dtype", "float32")))
    if spec.get("zero_init"):
        with deepspeed.zero.Init(config_dict_or_path=config):
            model = memory_models.build(spec)
    else:
        model = memory_models.build(spec)
    torch.set_default_dtype(torch.float32)
    model = memory_models.adapted(model, spec.get("lora"))
    mark("initialize 0")
    whole = [(getattr(p, "ds_numel", p.numel()), p.requires_grad) for p in model.parameters()]
    trained = [p for p in model.parameters() if p.requires_grad]
    extra = {}
    if trial.get("sequence_parallel"):
        micro = config["train_micro_batch_size_per_gpu"]
        ranks, length = int(trial["sequence_parallel"]), int(trial["length"])
        extra["mpu"] = memory_models.share_sequences(model, ranks, length, micro)
    model = memory_models.cut(model, config)
    trained = [p for p in model.parameters() if p.requires_grad]
    if trial.get("client_optimizer"):
        name, options = trial["client_optimizer"]
        package, _, name = name.rpartition(":")
        home = importlib.import_module(package) if package else torch.optim
        extra["optimizer"] = getattr(home, name)(trained, lr=1e-4, **options)
    engine = deepspeed.initialize(model=model, model_parameters=trained, config=config, **extra)[0]
    if getattr(engine, "first_dataloader_check", None):
        engine.first_dataloader_check.remove()  # compares with other ranks' batches, and there are none
    return engine, whole


def train(trial: dict[str, Any], engine: Any) -> None:
    """All steps; what is communicated is counted in the last."""
    spec, steps = trial["model"], int(trial.get("steps", 3))
    micro, accumulate = engine.train_micro_batch_size_per_gpu(), engine.gradient_accumulation_steps()
    kind = next(engine.module.parameters()).dtype
    for step in range(steps):
        if step == steps - 1:
            calls.clear()
        for _ in range(accumulate):
            length = int(trial.get("length", 128)) // int(trial.get("sequence_parallel", 1))
            mark(f"forward {step}")
            batch = memory_models.batch_of(spec, micro, length, kind)
            if trial.get("sequence_parallel"):
                batch = memory_models.shared(batch)
            loss = memory_models.loss_of(engine, batch)
            mark(f"backward {step}")
            engine.backward(loss)
            mark(f"step {step}")
            engine.step()
            del loss, batch
    saves = trial["config"]["zero_optimization"].get("stage3_gather_16bit_weights_on_model_save")
    if saves and engine.zero_optimization_stage() == 3:
        mark(f"save {steps - 1}")
        saved = engine._zero3_consolidated_16bit_state_dict()
        mark("saved 0")
        del saved


def measure(trial: dict[str, Any]) -> dict[str, Any]:
    """Build an engine, train, and say what it allocated."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    global imbalance  # noqa: PLW0603
    imbalance = int(trial.get("imbalance", 1))
    world, rank, steps = int(trial["world_size"]), int(trial.get("rank", 0)), int(trial.get("steps", 3))
    os.environ.update(WORLD_SIZE=str(world), RANK=str(rank))
    if trial.get("node"):  # ranks of a node
        cpu = importlib.import_module("deepspeed.accelerator").get_accelerator()
        cpu.device_count = lambda: int(trial["node"])
    torch.distributed.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    torch.manual_seed(0)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profiler:
        engine, whole = build(trial)
        train(trial, engine)
        gc.collect()
        mark("rest")
    owners = memory_recording.kept(engine)
    found, marks = memory_recording.allocations(profiler)
    section, stage = trial["config"].get("zero_optimization", {}), engine.zero_optimization_stage()
    optimizer = stage > 0 and "offload_optimizer" in section
    offloads = memory_recording.WITH_OPTIMIZER if optimizer else ()
    offloads += memory_recording.WITH_PARAMETERS if stage == 3 and "offload_param" in section else ()
    hosts = memory_recording.away(found, owners, offloads, optimizer)
    rows = memory_recording.phases(found, marks, int(trial.get("explain", 0)), hosts)
    peak: dict[str, int] = {"load": 0}
    device: dict[str, int] = {"load": 0}
    swaps = section.get("offload_optimizer", {}).get("device") == "nvme"  # the first step makes states
    alive: dict[str, Any] = {}
    for row in rows:
        name, _, turn = row["name"].partition(" ")
        if name in LOADING:
            on_device = name == "placed" or trial["model"].get("zero_init")
            device["load"] = max(device["load"], row["device"] if on_device else 0)
            name, turn = "load", ""
        elif turn == str(steps - 1) or (swaps and turn):
            device[name] = max(device.get(name, 0), row["device"])
        counts = name == "load" or turn == str(steps - 1) or (swaps and turn)
        if counts and row["peak"] > peak.get(name, -1):
            peak[name], alive[name] = row["peak"], row.get("alive")
    names = owners.bytes
    return {
        "parameters": sum(count for count, _ in whole),
        "trainable": sum(count for count, trains in whole if trains),
        "at_rest": rows[-1]["start"],
        "host": sum(count for name, count in names.items() if offloads and name.startswith(offloads)),
        "kept": names,
        "peak": peak,
        "device": device,
        "collectives": {name: found for name, found in calls.items() if name in peak},
        "skipped": getattr(engine, "skipped_steps", None),
    } | ({"alive": alive} if trial.get("explain") else {})


# ---------------------------------------------------------------- one process a trial
def child(trial: dict[str, Any], answer: int) -> None:
    """Run one trial and write down what it found; never returns."""
    try:
        said = measure(trial) | {"error": None}
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        said = {"error": f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"[:600]}
    with os.fdopen(answer, "w") as pipe:
        json.dump(said, pipe)
    os._exit(0)


def run(trial: dict[str, Any], limit: float) -> dict[str, Any]:
    """One trial in a process of its own, ended where it takes too long."""
    pid, reading = forks.started(functools.partial(child, trial))
    text, late = forks.heard(reading, limit)
    if late:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    try:
        said: dict[str, Any] = json.loads(text)
    except ValueError:
        said = {"error": "died, or took too long"}
    return {"id": trial["id"]} | said


def main() -> None:
    """Answer trials until stdin ends."""
    limit = float(sys.argv[1]) if len(sys.argv) > 1 else 180.0
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # DeepSpeed prints
    prepare()
    for line in sys.stdin:
        answers.write("=" + json.dumps(run(json.loads(line), limit)) + "\n")
        answers.flush()


main()
