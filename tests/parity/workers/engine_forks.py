"""Real DeepSpeed engines on CPU, one process each, inside the parity environment.

Reads trials from stdin, a JSON line each: `{"id", "config", "steps", …}`, see `Trial` in
`tests.parity.judges.engines`. Answers with a line that starts with `=`: what became of the trial. DeepSpeed
is imported once, and every trial runs in a fork of that process, so that nothing of one engine reaches the
next. Nothing of `dsconfig` is imported here.
"""

import contextlib
import json
import os
import signal
import sys
import tempfile
import types
from typing import Any

for name in ("intel_extension_for_pytorch", "oneccl_bindings_for_pytorch"):
    sys.modules.setdefault(name, types.ModuleType(name))  # asked for up to 0.9, and hardly used

import deepspeed  # noqa: E402
import deepspeed.ops  # noqa: E402
import forks  # noqa: E402
import torch  # noqa: E402

# The shared-memory collectives would be compiled, for minutes and by a C++ compiler; gloo's own do.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def model_of(name: str) -> torch.nn.Module:
    """The model of this name: a layer, or a pipeline of two."""
    if name == "linear":
        return torch.nn.Linear(8, 8)
    if name == "pipeline":
        layers = [torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)]
        module: torch.nn.Module = deepspeed.pipe.PipelineModule(
            layers=layers, num_stages=1, loss_fn=torch.nn.functional.mse_loss
        )
        return module
    raise ValueError(f"unknown model {name!r}")


class Nothing:
    """A stream or an event of one, where there are none."""

    def __init__(self, **_: Any) -> None:
        pass

    record = synchronize = wait = wait_stream = wait_event = lambda *_: None


def settle(cpu: Any) -> None:
    """What releases up to 0.10 ask of a CPU that has Intel's extensions."""
    cpu._communication_backend_name = "gloo"  # oneCCL
    for name in ("Event", "Stream"):
        if getattr(cpu, name) is None:
            setattr(type(cpu), name, Nothing)
    if not hasattr(cpu.stream(None), "__enter__"):
        type(cpu).stream = lambda *_: contextlib.nullcontext()


def train(trial: dict[str, Any], folder: str, said: dict[str, Any]) -> None:
    """Build an engine and take the steps; `said["phase"]` tells how far it came."""
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    os.environ.update(trial.get("variables", {}))
    torch.manual_seed(0)
    said["phase"] = "start"
    settle(deepspeed.accelerator.get_accelerator())
    if "build" in trial:
        for name in trial["build"]:
            with contextlib.suppress(ValueError):  # older releases have some for GPUs alone
                deepspeed.accelerator.get_accelerator().create_op_builder(name).load(verbose=False)
        return
    deepspeed.init_distributed("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    model = model_of(trial.get("model", "linear"))
    path = os.path.join(folder, "config.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(trial["text"] if "text" in trial else json.dumps(trial["config"]))
    extra = {}
    if trial.get("client_optimizer"):
        extra["optimizer"] = getattr(torch.optim, trial["client_optimizer"])(model.parameters(), lr=1e-3)
    if trial.get("fp16"):  # which the CPU computes, and DeepSpeed does not believe of it
        deepspeed.accelerator.get_accelerator().is_fp16_supported = lambda: True
    said["phase"] = "initialize"
    config = json.loads(trial["text"]) if trial.get("dict") and "text" in trial else trial.get("config")
    engine, *_ = deepspeed.initialize(
        model=model,
        model_parameters=model.parameters(),
        config=config if trial.get("dict") else path,
        **extra,
    )
    if trial.get("compile"):
        said["phase"] = "compile"
        engine.compile(backend="eager")
    said["phase"] = "train"
    if trial.get("model") == "pipeline":
        micro = engine.train_micro_batch_size_per_gpu()
        pairs = iter(lambda: (torch.randn(micro, 8), torch.randn(micro, 8)), None)
        for _ in range(trial.get("steps", 1)):
            engine.train_batch(pairs)
    else:
        passes = trial.get("steps", 1) * max(1, engine.gradient_accumulation_steps())
        for _ in range(min(passes, 64)):
            kind = next(engine.module.parameters()).dtype
            outputs = engine(torch.randn(min(engine.train_micro_batch_size_per_gpu(), 64), 8).to(kind))
            engine.backward(outputs.float().pow(2).mean())
            engine.step()
    said["phase"] = "done"


def child(trial: dict[str, Any], answer: int) -> None:
    """Run one trial and write down what became of it; never returns."""
    said: dict[str, Any] = {"id": trial["id"], "ok": False, "phase": "start", "error": None, "message": None}
    with tempfile.TemporaryDirectory(prefix="engine-") as folder:
        os.chdir(folder)
        try:
            train(trial, folder, said)
            said["ok"] = True
        except BaseException as error:
            said["error"], said["message"] = type(error).__name__, str(error)[:4000]
            if os.environ.get("ENGINE_TRACEBACK"):
                import traceback

                said["traceback"] = traceback.format_exc()[-4000:]
    os.write(answer, json.dumps(said).encode())
    os._exit(0)


def run(trial: dict[str, Any], limit: float) -> dict[str, Any]:
    """One trial in a process of its own, ended where it takes too long."""

    def quietly(writing: int) -> None:
        os.setsid()
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        if not os.environ.get("ENGINE_NOISE"):
            os.dup2(quiet, 2)
        child(trial, writing)

    pid, reading = forks.started(quietly)
    text, late = forks.heard(reading, limit)
    if text:
        os.waitpid(pid, 0)
        said: dict[str, Any] = json.loads(text)
        return said
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    why = f"no answer after {limit:.0f} s" if late else f"the process died, status {status}"
    return {"id": trial["id"], "ok": None, "phase": "late" if late else "died", "error": None, "message": why}


def main() -> None:
    """Answer trials until stdin ends."""
    limit = float(sys.argv[1]) if len(sys.argv) > 1 else 120.0
    torch.set_num_threads(1)
    for line in sys.stdin:
        trial = json.loads(line)
        print("=" + json.dumps(run(trial, float(trial.get("limit", limit)))), flush=True)


main()
