"""Training without DeepSpeed, as a Trainer does it: autocast, a torch optimizer, and `DistributedDataParallel`.

dsconfig estimates DeepSpeed's engines only. This engine compares activations, workspaces and the caching allocator with
published measurements of runs that use no DeepSpeed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.engines.base_engine import BUCKET, GRADIENTS, STATES, TEMPORARY, WEIGHTS, Engine
from dsconfig.memory.engines.engine_setup import OptimizerCost
from dsconfig.memory.estimates import Estimate, usage_of
from dsconfig.memory.estimates import _device_usage as device_usage_of  # the tests share its one caller
from dsconfig.memory.memory_ledger import MemoryLedger
from dsconfig.memory.models.record_pass_by_family import record_forward_pass

if TYPE_CHECKING:
    from dsconfig.memory.autograd_graph import ModelParameter
    from dsconfig.resolve.memory import EstimateRequest

UNFUSED = OptimizerCost("adamw", 8, 0, largest_tensor_bytes=8)
"""AdamW that updates one tensor after the other, torch's default before 2.0."""


class TorchPrecision(NamedTuple):
    """Dtypes of a run without DeepSpeed."""

    itemsize: int = 2
    """Bytes per weight of the base model: 4 for fp32, also after PEFT's `prepare_model_for_kbit_training`."""
    autocast: bool = True
    """Whether the Trainer wraps the forward pass in `torch.autocast` (`bf16` or `fp16`)."""
    fp32_adapters: bool = True
    """Whether PEFT casts adapters to fp32 (since 0.12), or leaves them in fp32 (before 0.6)."""
    foreach: bool = True
    """Whether torch's optimizer updates all tensors at once, its default on GPUs since 2.0."""


class TorchEngine(Engine):
    """Optimizer and gradients in the dtype of each weight; each rank holds everything."""

    def _bytes(self, weight: ModelParameter) -> int:
        return weight.numel * (4 if weight.stays_fp32 else self.setup.itemsize)

    @property
    def trainable_bytes(self) -> int:
        """Bytes of all trained weights, and of their gradients."""
        return sum(map(self._bytes, self.trainable))

    def _load(self) -> None:
        self.build()

    def _allocate_at_rest(self) -> None:
        rule = self.setup.optimizer
        self.ledger.allocate(WEIGHTS, sum(map(self._bytes, self.tape.weights)))
        states = (
            rule.states_nbytes(weight.numel)
            * (4 if rule.quantization_block else self._bytes(weight) // weight.numel)
            for weight in self.trainable
        )
        self.ledger.allocate(STATES, sum(states) // 4)
        if self.setup.dp_world_size > 1:  # buckets of the reducer (`gradient_as_bucket_view` is off)
            self.ledger.allocate(BUCKET, self.trainable_bytes)
        self.params_with_grad: set[ModelParameter] = set()

    def _receive_gradient(self, weight: ModelParameter, count: int) -> None:
        if weight in self.params_with_grad:
            self.ledger.free(GRADIENTS, count)
        self.params_with_grad.add(weight)

    def _step(self) -> None:
        rule, largest = self.setup.optimizer, max(map(self._bytes, self.trainable))
        count = rule.temporary_bytes * self.trainable_bytes + rule.largest_tensor_bytes * largest
        self.ledger.allocate_briefly(TEMPORARY, count // 4)
        self.ledger.free(GRADIENTS, self.trainable_bytes)
        self.params_with_grad.clear()


def estimate_without_deepspeed(request: EstimateRequest, precision: TorchPrecision) -> Estimate:
    """Estimate a run that passes its model to no DeepSpeed engine."""
    setup, batch = request.setup, request.micro_batch
    setup = setup._replace(
        itemsize=precision.itemsize, half_dtype=None, master_itemsize=4, autocast=precision.autocast
    )
    if not precision.foreach:
        setup = setup._replace(optimizer=UNFUSED)
    fp32_adapters = precision.fp32_adapters and precision.itemsize == 2
    adapter = batch.adapter and batch.adapter._replace(stays_fp32=fp32_adapters)
    batch = batch._replace(itemsize=precision.itemsize, autocast=precision.autocast, adapter=adapter)
    tape = record_forward_pass(request.arch, batch)
    for weight in tape.weights:
        has_copy = weight.stays_fp32 or (precision.itemsize == 4 and not weight.original_numel)
        weight.is_autocast = weight.is_autocast and has_copy  # only fp32 weights are cast
    ledger = MemoryLedger()
    engine = TorchEngine(setup, tape, ledger)
    ledger.enter("at rest")
    ledger.rank.events = []
    ledger.allocate(WEIGHTS, tape.buffer_bytes)
    engine.allocate_at_rest()
    ledger.rank.mark_step_start()
    engine.run()
    usage = usage_of(ledger.rank, engine)
    device = device_usage_of(ledger, engine, request.arch, batch)
    sizes = setup.dp_world_size, 0, engine.model_numel, engine.trainable_numel
    return Estimate("", *sizes, usage, usage_of(ledger.host), (), (), request.unmodelled, device=device)
