"""A model of two linear layers, small enough to work out every byte by hand, and engines for it."""

from __future__ import annotations

from typing import Any

from dsconfig.memory.autograd_graph import ForwardTape
from dsconfig.memory.config_values import ConfigValues
from dsconfig.memory.engines.base_engine import Engine
from dsconfig.memory.engines.engine_setup import EngineSetup
from dsconfig.memory.engines.select_engine import select_engine
from dsconfig.memory.memory_ledger import MemoryLedger
from dsconfig.memory.models.architecture import MicroBatch
from dsconfig.memory.setup_from_config import TrainingJob, setup_of

FIRST, SECOND = 8, 12
"""Elements of the weights: 4 × 2, then 3 × 4."""
ROWS, INPUT, HIDDEN, OUTPUT = 5, 10, 20, 15
"""Rows of the batch, and elements of its activations: 5 rows of 2, 4 and 3."""
BUCKET = 100


def two_layers(itemsize: int = 2, names: tuple[str, str] = ("first", "second")) -> ForwardTape:
    """Two linear layers: 2 inputs, 4 hidden, 3 outputs, and a sum as the loss."""
    tape = ForwardTape(itemsize)
    first, second = tape.projection(names[0], 4, 2), tape.projection(names[1], 3, 4)
    x = tape.op([], tape.tensor(INPUT, requires_grad=False))
    with tape.record_module(first):
        y = tape.op([x], tape.tensor(HIDDEN), [x], first.weights)
    with tape.record_module(second):
        z = tape.op([y], tape.tensor(OUTPUT), [y], second.weights)
    tape.op([z], tape.tensor(1))
    return tape


def tiny_setup(stage: int, world: int = 2, release: str = "0.19.8", **values: Any) -> EngineSetup:
    """Engine settings in bf16 with DeepSpeed's Adam; `values`: more keys, with `__` for a dot."""
    keys = {
        "bf16.enabled": True,
        "optimizer.type": "AdamW",
        "gradient_accumulation_steps": 1,
        "zero_optimization.stage": stage,
        "zero_optimization.reduce_bucket_size": BUCKET,
        "zero_optimization.contiguous_gradients": True,
        "zero_optimization.reduce_scatter": True,
        "zero_optimization.sub_group_size": 10**9,
    }
    keys |= {key.replace("__", "."): value for key, value in values.items()}
    sections = ["zero_optimization.zenflow."] if any("zenflow" in key for key in keys) else []
    return setup_of(ConfigValues(keys, sections), TrainingJob(release, world, MicroBatch(1, 1)))


def at_rest(setup: EngineSetup, tape: ForwardTape | None = None) -> tuple[dict[str, int], dict[str, int]]:
    """Bytes of each term on a rank and on its host after initialization and a step."""
    _, ledger = run(setup, tape)
    rank, host = (
        {name: count for name, count in pool.live.items() if count} for pool in (ledger.rank, ledger.host)
    )
    return rank, host


def run(setup: EngineSetup, tape: ForwardTape | None = None) -> tuple[Engine, MemoryLedger]:
    """Load an engine and run one step."""
    ledger = MemoryLedger()
    engine = select_engine(setup, tape or two_layers(setup.itemsize), ledger)
    engine.load()
    ledger.reset()
    ledger.enter("at rest")
    engine.allocate_at_rest()
    engine.run()
    return engine, ledger
