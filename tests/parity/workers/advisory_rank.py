"""One rank of a real DeepSpeed engine on CPU, with other samples for each rank and micro-batch: a step by SGD.

    RANK=0 WORLD_SIZE=2 … python advisory_rank.py CONFIG

The gradient of each weight is (1 + 2 * rank) * 2 ** micro-batch. Prints the weights after the step as the last
line, JSON. `"fused": true` in the config's `"trial"` makes the optimizer an instance of DeepSpeed's FusedAdam,
whose wrapper differs. Nothing of `dsconfig` is imported here.
"""

import json
import os
import sys
import types

for name in ("intel_extension_for_pytorch", "oneccl_bindings_for_pytorch"):
    sys.modules.setdefault(
        name, types.ModuleType(name)
    )  # imported up to 0.13, and used only by their own backend

import deepspeed  # noqa: E402
import deepspeed.ops  # noqa: E402
import torch  # noqa: E402

for op in ("deepspeed_shm_comm", "deepspeed_ccl_comm"):  # they would be compiled
    getattr(deepspeed.ops, "__compatible_ops__", {})[op] = False


def _start(self: torch.optim.Optimizer, params: object, lr: float) -> None:
    torch.optim.Optimizer.__init__(self, params, {"lr": lr})


def _step(self: torch.optim.Optimizer) -> None:
    for group in self.param_groups:
        for each in group["params"]:
            if each.grad is not None:
                each.data.sub_(each.grad, alpha=group["lr"])


def main() -> None:
    with open(sys.argv[1]) as file:
        config = json.load(file)
    trial = config.pop("trial")
    accelerator = deepspeed.accelerator.get_accelerator()
    for name in ("is_fp16_supported", "is_bf16_supported"):
        setattr(accelerator, name, lambda: True)  # as those that people train on
    accelerator.communication_backend_name = lambda: "gloo"
    deepspeed.init_distributed("gloo")
    model = torch.nn.Linear(4, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    chosen: type = torch.optim.SGD
    if trial.get("fused"):
        # The wrapper looks at the class alone; the kernel of FusedAdam would have to be compiled.
        from deepspeed.ops.adam import FusedAdam

        chosen = type("FusedSGD", (FusedAdam,), {"__init__": _start, "step": _step})
    optimizer = chosen(model.parameters(), lr=1.0)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    kind = next(engine.module.parameters()).dtype
    for micro_batch in range(config.get("gradient_accumulation_steps", 1)):
        value = (1.0 + 2 * int(os.environ["RANK"])) * 2**micro_batch
        loss = engine(torch.full((1, 4), value, dtype=kind)).sum()
        engine.backward(loss)
        engine.step()
    weights = next(engine.module.parameters()).detach().float().flatten().tolist()
    print(json.dumps(weights), flush=True)


main()
os._exit(0)  # gloo's threads may wait for each other
