"""AutoTP: linear layers are sharded over ranks (DeepSpeed's `module_inject/layers.py`, since 0.16.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.memory.autograd_graph import ROW_PARALLEL, ModelCollective
from dsconfig.memory.engines.base_engine import BUILT, GATHERED, STATES, WEIGHTS, Feature

if TYPE_CHECKING:
    from dsconfig.memory.autograd_graph import Module, TensorParallelSettings
    from dsconfig.memory.engines.stage3 import DeepSpeedZeroOptimizerStage3
    from dsconfig.memory.models.architecture import Architecture, MicroBatch


def rank_architecture(arch: Architecture, sharing: TensorParallelSettings) -> Architecture:
    """Return an architecture with the dimensions of one rank's shards."""
    ranks = sharing.size
    return arch._replace(
        num_heads=arch.num_heads // ranks,
        num_kv_heads=arch.num_kv_heads // ranks,
        intermediate_size=arch.intermediate_size if arch.num_experts else arch.intermediate_size // ranks,
        lm_head_shards=ranks if sharing.shards_lm_head(arch.has_qk_norms) else 1,
    )


def tensor_parallel_collectives(arch: Architecture, batch: MicroBatch) -> list[ModelCollective]:
    """Return the collectives per micro batch that tensor parallelism causes.

    The forward pass sums the outputs of `o_proj` and `down_proj` and gathers the logits. The backward pass sums five
    input gradients per layer (q, k, v, gate and up), and that of the head. The recomputation of a layer stops before
    the sum of `down_proj`. The counts were measured.
    """
    sharing, rows, layers = (
        batch.tensor_parallel,
        batch.micro_batch_size * batch.sequence_length,
        arch.num_layers,
    )
    head, recomputed_sums = (
        sharing.shards_lm_head(arch.has_qk_norms),
        layers * batch.gradient_checkpointing,
    )
    forward_sums, backward_sums = (layers, 3 * layers) if arch.num_experts else (2 * layers, 5 * layers)
    norm_sums = 2 * layers if sharing.reads_tp_plans and arch.has_qk_norms else 0
    activation_itemsize = 2 if batch.autocast else batch.itemsize
    return [
        ModelCollective(name, phase, calls, numel, itemsize, sharing.size)
        for phase, name, calls, numel, itemsize in (
            ("forward", "all_reduce", forward_sums, rows * arch.hidden_size, activation_itemsize),
            ("forward", "all_gather", int(head), rows * arch.vocab_size, activation_itemsize),
            ("backward", "all_reduce", recomputed_sums, rows * arch.hidden_size, activation_itemsize),
            ("backward", "all_reduce", backward_sums + head, rows * arch.hidden_size, batch.itemsize),
            ("backward", "all_reduce", norm_sums, arch.head_dim, batch.itemsize),
        )
        if calls
    ]


# The engine: layers are sharded as the model is built, or after `zero.Init`, and gathered on save.


class AutoTP(Feature):
    """The AutoTP feature, which gives each tensor-parallel rank a shard of every linear layer."""

    def build(self) -> bool:
        """Shard the linear layers, which are moved to the device in their original dtype and cast there."""
        engine, ledger, weights = self.engine, self.ledger, self.engine.tape.weights
        built, itemsize = self.setup.build_itemsize, self.setup.itemsize
        ledger.allocate(BUILT, built * engine.model_numel, host=True)
        if self.setup.optimizer.is_client:
            ledger.allocate(STATES, engine.construction_state_bytes)
        for weight in weights:
            if weight.tp_size > 1:
                ledger.allocate(WEIGHTS, built * weight.numel)
                ledger.free(BUILT, built * weight.numel * weight.tp_size, host=True)
        for weight in weights if built != itemsize else ():  # cast one by one
            # DeepSpeed casts each parameter in place (engine.py `_cast_module_mixed_precision`, before
            # `module.half()`).
            name, host = (WEIGHTS, False) if weight.tp_size > 1 else (BUILT, True)
            ledger.allocate(name, itemsize * weight.numel, host=host)
            ledger.free(name, built * weight.numel, host=host)
        others = sum(weight.numel for weight in weights if weight.tp_size == 1)
        ledger.free(BUILT, itemsize * others, host=True)
        ledger.allocate(WEIGHTS, itemsize * others)
        if not self.setup.optimizer.is_client:
            ledger.allocate(STATES, engine.construction_state_bytes)
        return True


class AutoTPStage3(Feature):
    """The AutoTP feature at stage 3, which partitions the tensor-parallel shards again."""

    engine: DeepSpeedZeroOptimizerStage3

    def after_zero_init(self) -> None:
        """Gather, copy and shard the linear layers (`_gather_zero3_params`), then partition them again."""
        itemsize, ledger = self.setup.itemsize, self.ledger
        sharded = [weight for weight in self.engine.tape.weights if weight.tp_size > 1]
        for weight in sharded:
            ledger.allocate_briefly(GATHERED, 2 * itemsize * weight.numel * weight.tp_size)
            ledger.allocate(WEIGHTS, itemsize * weight.numel)
        for weight in sharded:
            ledger.allocate_briefly(WEIGHTS, self.engine.shard_bytes_of(weight))
            ledger.free(WEIGHTS, itemsize * weight.numel)

    def gather_on_save(self, module: Module) -> int:
        """Gather a sharded layer (`GatherReplacedLayerParams`); column shards are copied a second time."""
        sharded = [weight for weight in module.weights if weight.tp_size > 1]
        count = sum(self.engine.itemsize_of(weight) * weight.numel * weight.tp_size for weight in sharded)
        self.ledger.allocate(GATHERED, count)
        if module.name.endswith(ROW_PARALLEL):
            self.ledger.allocate_briefly(GATHERED, count)
        return count
