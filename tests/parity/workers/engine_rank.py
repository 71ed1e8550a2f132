"""One rank of a real DeepSpeed engine on CPU, inside the parity environment: two steps with a given config.

    RANK=0 WORLD_SIZE=1 … python engine_rank.py CONFIG

Prints what the engine says of itself as the last line, JSON. Nothing of `dsconfig` is imported here.
"""

import json
import math
import os
import sys

import deepspeed
import deepspeed.ops
import torch

# The shared-memory collectives would be compiled, for minutes and by a C++ compiler; gloo's own do.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def main() -> None:
    with open(sys.argv[1]) as file:
        config = json.load(file)
    torch.manual_seed(0)
    deepspeed.init_distributed("gloo")
    model = torch.nn.Linear(8, 1)
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    micro, passes, losses = engine.train_micro_batch_size_per_gpu(), 0, []
    while engine.global_steps < 2:
        inputs = torch.randn(micro, 8)
        loss = torch.nn.functional.mse_loss(engine(inputs), inputs.sum(1, keepdim=True))
        engine.backward(loss)
        engine.step()
        losses.append(float(loss))
        passes += 1
    said = {
        "triplet": [engine.train_batch_size(), micro, engine.gradient_accumulation_steps()],
        "world_size": engine.world_size,
        "passes": passes,
        "samples": engine.global_samples,
        "finite": all(math.isfinite(loss) for loss in losses),
        "rank": int(os.environ["RANK"]),
    }
    torch.distributed.barrier()
    print("\n" + json.dumps(said), flush=True)


main()
