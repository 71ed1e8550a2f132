"""One DeepSpeed release judges configs, inside the parity environment's venv: JSON lines in, JSON lines out.

    in   {"id", "config" (used as a dict) or "text" (written to a file and given as its path), "world_size"}
    out  {"id", "ok", "stage", "error", "message", "triplet", "places", "raised_at"}

`ok` is null where the judge could not finish (time or memory). `stage` is `parse` until the text has become a
dict, then `config`. `places` are the keys that a pydantic error names, outermost first; `raised_at` is the
innermost line of DeepSpeed's own code.
Nothing but the standard library and DeepSpeed is imported: `dsconfig` is not installed here.
"""

import copy
import inspect
import json
import logging
import os
import resource
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

TIME_LIMIT = 5.0  # seconds for one config; elasticity with huge numbers would count for hours
MEMORY_LIMIT = 3 << 30  # bytes beyond what the imports took


class OutOfTime(BaseException):
    """Raised by the alarm; no `except Exception` of DeepSpeed catches it."""


def on_alarm(signum: int, frame: Any) -> None:
    raise OutOfTime(f"no verdict within {TIME_LIMIT:g} s")


class Fake:
    """Stands before a module and replaces some of its functions."""

    def __init__(self, module: Any, **replaced: Any) -> None:
        self.__dict__.update(replaced, _module=module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class Judge:
    """DeepSpeed's own `DeepSpeedConfig`, in a process group of any size."""

    def __init__(self) -> None:
        from deepspeed.runtime import config

        self.module: Any = config
        self.stage = "parse"
        self.world_size = 1
        self.parameters = inspect.signature(config.DeepSpeedConfig.__init__).parameters
        self.folder = tempfile.mkdtemp(
            prefix="judge-"
        )  # no name of a key: DeepSpeed searches the path itself
        self.variables = dict(os.environ)
        import torch.distributed

        functions = {"get_rank": lambda *_, **__: 0, "get_world_size": lambda *_, **__: self.world_size}
        if hasattr(config, "dist"):  # since 0.7
            self.module.dist = Fake(config.dist, **functions)
        else:
            for name, function in functions.items():
                setattr(torch.distributed, name, function)
        self.pretend_cuda()
        for name in ("json", "hjson"):
            if hasattr(config, name):
                reader = getattr(config, name)
                setattr(self.module, name, Fake(reader, load=self.noticing(reader.load)))

    def pretend_cuda(self) -> None:
        """`aio.use_gds` asks for a CUDA machine: what this one lacks says nothing of a config."""
        try:
            from deepspeed.runtime.swap_tensor import aio_config
        except ImportError:
            return
        if hasattr(aio_config, "get_accelerator"):  # since 0.15
            accelerator = Fake(aio_config.get_accelerator(), device_name=lambda *_: "cuda")
            aio_config.get_accelerator = lambda: accelerator

    def noticing(self, load: Any) -> Any:
        """The reader's `load`, which also notes that the text was understood."""

        def loaded(*arguments: Any, **options: Any) -> Any:
            value = load(*arguments, **options)
            self.stage = "config"
            return value

        return loaded

    def build(self, case: "dict[str, Any]") -> Any:
        """The release's config object of one case; raises what DeepSpeed raises."""
        make = self.module.DeepSpeedConfig
        if "text" in case:
            path = os.path.join(self.folder, "case.json")
            with open(path, "wb") as file:
                file.write(case["text"].encode("utf-8", "surrogateescape"))
            return make(path)
        self.stage = "config"
        config = copy.deepcopy(case["config"])
        if "param_dict" in self.parameters:  # before 0.4 or so a dict came beside the path
            return make(None, param_dict=config)
        return make(config)

    def triplet(self, built: Any) -> "list[Any] | None":
        """The batch sizes of a config object."""
        return [
            built.train_batch_size,
            built.train_micro_batch_size_per_gpu,
            built.gradient_accumulation_steps,
        ]

    def verdict(self, case: "dict[str, Any]") -> "dict[str, Any]":
        """What the release says of one case."""
        self.stage, self.world_size = "parse", case.get("world_size", 1)
        result: dict[str, Any] = {
            "id": case["id"],
            "ok": False,
            "error": None,
            "message": None,
            "triplet": None,
        }
        result.update(places=[], raised_at="")
        signal.setitimer(signal.ITIMER_REAL, TIME_LIMIT)
        try:
            built = self.build(case)
            signal.setitimer(signal.ITIMER_REAL, 0)
            result["ok"] = True
            result["triplet"] = self.triplet(built)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            signal.setitimer(signal.ITIMER_REAL, 0)
            if isinstance(error, OutOfTime | MemoryError):
                result["ok"] = None
            result.update(error=type(error).__name__, message=str(error)[:600])
            result.update(places=places(error), raised_at=raised_at(error))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        result["stage"] = self.stage
        os.environ.clear()
        os.environ.update(self.variables)
        return result


def places(error: BaseException) -> "list[list[str]]":
    """Where a pydantic error points, one list of keys for each of its findings."""
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return []
    try:
        return [[str(part) for part in found["loc"]] for found in errors()][:10]
    except Exception:
        return []


def raised_at(error: BaseException) -> str:
    """File and line of DeepSpeed at which the error came up."""
    found, trace = "", error.__traceback__
    while trace is not None:
        _, inside, path = trace.tb_frame.f_code.co_filename.rpartition("/deepspeed/")
        found = f"{path}:{trace.tb_lineno}" if inside else found
        trace = trace.tb_next
    return found


def limit_memory() -> None:
    """Ends a case that would fill the machine; only where the system says how much is used now."""
    try:
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_LIMIT, resource.RLIM_INFINITY))


def serve(
    answer: "Callable[[Any, dict[str, Any]], dict[str, Any]]", make: "Callable[[], Judge]" = Judge
) -> None:
    """Answers the cases on standard input, one a line."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # DeepSpeed prints while it is imported
    judge = make()
    signal.signal(signal.SIGALRM, on_alarm)
    limit_memory()
    for line in sys.stdin:
        answers.write(json.dumps(answer(judge, json.loads(line)), default=repr) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve(Judge.verdict)
