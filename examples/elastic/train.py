"""A DeepSpeed job that loses and gains processes, and resumes from its last checkpoint.

    dsconfig elastic run --nnodes 1:4 --rdzv-endpoint HOST:29400 ds_config.json train.py --checkpoints out

It runs on a CPU. ZeRO partitions the optimizer states for one world size (stage 3 the weights too), so a checkpoint of
another world size is first converted to DeepSpeed's universal format. The global batch size stays the same, and so does
the loss of each step, up to rounding.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import deepspeed
import torch
import torch.distributed as dist

import elastic
from elastic import Checkpoints, universal, with_universal

FEATURES = 8


def samples(first: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the samples `first` to `first + count` of an endless data set."""
    index = torch.arange(first, first + count, dtype=torch.float32)
    inputs = torch.sin(index[:, None] * (1 + torch.arange(FEATURES)))
    return inputs, inputs.sum(dim=1, keepdim=True)


def engine_for(session: elastic.Session, checkpoints: Checkpoints) -> tuple[Any, int]:
    """Return the engine with the state of the last checkpoint, and the next step."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(FEATURES, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    latest = [checkpoints.latest()]
    dist.broadcast_object_list(latest)  # hosts may see different files, so rank 0 decides
    saved = latest[0]
    resized = saved is not None and saved.world_size != session.world_size
    config = with_universal(session.config()) if resized else session.config()
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    if saved is None:
        return engine, 0
    tag = saved.tag
    if resized:
        if session.rank == 0:
            universal(saved)
        dist.barrier()
        tag = f"{saved.tag}_universal"
    engine.load_checkpoint(str(saved.folder), tag=tag)
    return engine, int(saved.tag.removeprefix("step"))


def step_once(session: elastic.Session, engine: Any, step: int) -> float:
    """Train one step on this rank's share of the batch, and return the loss of the whole batch."""
    share = session.micro_batch_size * session.accumulation_steps
    first = step * session.train_batch_size + session.rank * share
    total = torch.zeros(1)
    for micro in range(session.accumulation_steps):
        inputs, targets = samples(first + micro * session.micro_batch_size, session.micro_batch_size)
        loss = torch.nn.functional.mse_loss(engine(inputs), targets)
        engine.backward(loss)
        engine.step()
        total += loss.detach() / (session.accumulation_steps * session.world_size)
    dist.all_reduce(total)
    return total.item()


def checkpoint_wanted(session: elastic.Session) -> bool:
    """Return whether nodes are about to join or leave; the same on all ranks, because all of them save or none."""
    wanted = torch.tensor(float(session.checkpoint_wanted))
    dist.all_reduce(wanted, op=dist.ReduceOp.MAX)
    return bool(wanted)


def main() -> None:
    """Train from the last checkpoint to the last step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoints", required=True)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=10, help="steps between two checkpoints")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two steps")
    options = parser.parse_args()

    session = elastic.current()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    deepspeed.init_distributed("gloo")
    checkpoints = Checkpoints(options.checkpoints, session)
    engine, step = engine_for(session, checkpoints)
    print(
        f"round {session.round}: rank {session.rank} of {session.world_size} resumes at step {step}",
        flush=True,
    )
    while step < options.steps:
        session.check()
        loss = step_once(session, engine, step)
        step += 1
        if session.rank == 0:
            print(f"round {session.round}: step {step} of {options.steps}, loss {loss:.8f}", flush=True)
        time.sleep(options.pause)
        if checkpoint_wanted(session) or step % options.every == 0 or step == options.steps:
            engine.save_checkpoint(str(checkpoints.folder), tag=f"step{step}", save_latest=False)
            dist.barrier()
            if session.rank == 0 and checkpoints.commit(f"step{step}"):
                print(f"round {session.round}: step {step} is saved", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
