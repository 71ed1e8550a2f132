"""ZeRO++ quantized gradients at stage 3, which are reduced as int4, first within a node and then between nodes."""

from __future__ import annotations

from dsconfig.memory.autograd_graph import ModelParameter
from dsconfig.memory.engines.base_engine import FLATTENED, GRADIENTS, Feature
from dsconfig.memory.engines.stage3 import DeepSpeedZeroOptimizerStage3
from dsconfig.memory.zeropp_unsupported_shapes import is_sent_as_int4


class QuantizedGradients(Feature):
    """Quantized gradient reduction at stage 3 (`zero_quantized_gradients`)."""

    engine: DeepSpeedZeroOptimizerStage3

    def reduce(self, weights: list[ModelParameter], comm_itemsize: int) -> bool:
        """Reduce a bucket with `all_to_all_quant_reduce`; on a single node, return False to leave it to the engine."""
        setup, ledger, engine = self.setup, self.ledger, self.engine
        if not engine.ranks_of(weights[0]) > setup.gpus_per_node > 0:
            return False
        ranks, result_bytes = setup.dp_world_size, 0
        for weight in weights:
            count, shard = weight.numel, engine.shard_numel(weight)
            if not is_sent_as_int4(weight.shape, ranks):
                engine.count_collective("reduce_scatter", shard * ranks, comm_itemsize)
                ledger.allocate_briefly(FLATTENED, comm_itemsize * shard * ranks if count % ranks else 0)
            else:
                nodes = ranks // setup.gpus_per_node
                engine.count_collective("all_to_all", count // 2, 1, setup.gpus_per_node)
                engine.count_collective("all_to_all", count // 2 // setup.gpus_per_node, 1, nodes)
                ledger.allocate_briefly(FLATTENED, count)
            ledger.allocate(FLATTENED, setup.grad_accum_itemsize * shard)
            result_bytes += setup.grad_accum_itemsize * shard
            if weight in engine.unbucketed_grads:
                ledger.free(GRADIENTS, engine.unbucketed_grads.pop(weight))
        ledger.free(FLATTENED, result_bytes)
        return True
