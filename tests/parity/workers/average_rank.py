"""One of two ranks of a real DeepSpeed engine on CPU, with samples of its own: a step by torch's SGD.

    RANK=0 WORLD_SIZE=2 … python average_rank.py CONFIG

The gradient of each weight is 1 on rank 0 and 3 on rank 1. Prints the weights after the step as the last
line, JSON. Nothing of `dsconfig` is imported here.
"""

import json
import os
import sys

import deepspeed
import deepspeed.ops
import torch

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # it would be compiled


def main() -> None:
    with open(sys.argv[1]) as file:
        config = json.load(file)
    accelerator = deepspeed.accelerator.get_accelerator()
    for name in ("is_fp16_supported", "is_bf16_supported"):
        setattr(accelerator, name, lambda: True)  # as those that people train on
    deepspeed.init_distributed("gloo")
    model = torch.nn.Linear(4, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    kind = next(engine.module.parameters()).dtype
    while engine.global_steps < 1:
        loss = engine(torch.full((1, 4), 1.0 + 2 * int(os.environ["RANK"]), dtype=kind)).sum()
        engine.backward(loss)
        engine.step()
    weights = next(engine.module.parameters()).detach().float().flatten().tolist()
    print(json.dumps(weights), flush=True)


main()
os._exit(0)  # gloo's threads may wait for each other
