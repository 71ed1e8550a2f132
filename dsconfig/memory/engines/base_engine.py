"""`Engine`, which simulates micro batches and training steps, and `Feature`, which extends an engine."""

from __future__ import annotations

from collections.abc import Iterable

from dsconfig.memory.autograd_graph import ForwardTape, ModelParameter, Module
from dsconfig.memory.engines.engine_setup import EngineSetup
from dsconfig.memory.engines.forward_backward import ForwardBackwardPass
from dsconfig.memory.memory_ledger import MemoryLedger

WEIGHTS, MASTER, STATES = "parameters", "master weights", "optimizer states"
GRADIENTS, BUCKET, TEMPORARY = "gradients", "reduce bucket", "optimizer step temporaries"
MIDDLE = 1
"""Index of the micro batch that represents all micro batches between the first and the last."""
SAVE, CONSOLIDATED = "save", "consolidated weights"
"""Phase in which stage 3 gathers the whole model, and the memory term of the gathered copy on the host."""
FLATTENED, BUILT = "flattened bucket copy", "initial model copy"
GATHERED = "gathered parameters"


class Engine:
    """Simulation of a DeepSpeed engine and its features, after `initialize` and a first step.

    Methods with a leading underscore correspond to methods of the ZeRO optimizers; features are called at the same
    points.
    """

    gathers = False
    """Whether forward and backward passes of this engine gather parameters."""

    def __init__(self, setup: EngineSetup, tape: ForwardTape, ledger: MemoryLedger) -> None:
        self.setup, self.tape, self.ledger = setup, tape, ledger
        self.trainable = [weight for weight in tape.weights if weight.requires_grad]
        self.trainable_numel = sum(weight.numel for weight in self.trainable)
        self.total_numel = sum(weight.numel for weight in tape.weights)
        self.is_boundary = True
        self.micro_step, self.repeats = 0, 1
        self.calls: dict[tuple[str, str, int, int], tuple[int, int]] = {}
        """Number of calls and total number of elements, by phase, collective, itemsize and group size."""
        self.features: tuple[Feature, ...] = ()
        self.updates_in_place = False
        """Whether the optimizer updates weights without allocating memory."""

    def compose(self, feature: Feature) -> None:
        """Add a feature to the engine."""
        self.features = (*self.features, feature)

    # ------------------------------------------------------------ load
    def load(self) -> None:
        """Allocate the memory needed to build the model and the engine, in the order of the real code."""
        self._load()
        for feature in self.features:
            feature.load()

    def _load(self) -> None:
        raise NotImplementedError

    def build(self) -> None:
        """Build the model on the host, cast it parameter by parameter, and move it to the device."""
        built, itemsize, ledger = self.setup.build_itemsize, self.setup.itemsize, self.ledger
        if any(feature.build() for feature in self.features):
            return
        ledger.allocate(BUILT, built * self.model_numel, host=True)
        ledger.allocate_briefly(BUILT, built * self.tape.untied_numel, host=True)
        for feature in self.features:
            feature.shard_model()
        if self.setup.optimizer.is_client:  # a client optimizer exists before the engine
            ledger.allocate(STATES, self.construction_state_bytes)
        for weight in self.tape.weights if built != itemsize else ():
            ledger.allocate(BUILT, itemsize * weight.numel, host=True)
            ledger.free(BUILT, built * weight.numel, host=True)
        ledger.free(BUILT, itemsize * self.total_numel, host=True)
        for weight in self.tape.weights:
            ledger.allocate(WEIGHTS, itemsize * weight.numel)
        if not self.setup.optimizer.is_client:
            ledger.allocate(STATES, self.construction_state_bytes)

    @property
    def construction_state_bytes(self) -> int:
        """Bytes of the states that the optimizer's constructor allocates.

        A client optimizer may do so before AutoTP.
        """
        is_unsharded = self.setup.optimizer.is_client and self.setup.quirks.autotp_runs_in_initialize
        return self.setup.early_state_itemsize * sum(
            weight.numel * (weight.tp_size if is_unsharded else 1) for weight in self.trainable
        )

    @property
    def model_numel(self) -> int:
        """Number of elements in the whole model, over all tensor- and expert-parallel ranks."""
        return sum(
            weight.numel * (self.tape.ep_size if weight.is_expert else weight.tp_size)
            for weight in self.tape.weights
        )

    def ranks_of(self, weight: ModelParameter) -> int:
        """Return the number of data-parallel ranks that share a parameter's gradients, states and shards."""
        setup = self.setup
        if setup.tp_size > 1 and setup.stage == 3 and setup.zero_init and not weight.created_after_init:
            # `zero.Init` partitions over all ranks: it runs before AutoTP.
            return setup.dp_world_size * setup.tp_size
        return setup.dp_world_size // (self.tape.ep_size if weight.is_expert else 1)

    def largest_block_in(self, phase: str) -> int:
        """Return the bytes of the largest gradient, or in the save phase, of the largest parameter."""
        weights = self.tape.weights if phase == SAVE else self.trainable
        return self.setup.itemsize * max((weight.numel for weight in weights), default=0)

    # ------------------------------------------------------------ at rest
    def allocate_at_rest(self) -> None:
        """Allocate the memory that persists between steps, including the padding of pinned memory."""
        self.ledger.allocate(PINNED, self.pinned_padding() if self.setup.has_separate_host else 0, host=True)
        self._allocate_at_rest()
        for feature in self.features:
            feature.allocate_at_rest()

    def _allocate_at_rest(self) -> None:
        raise NotImplementedError

    def pinned_padding(self) -> int:
        """Return the bytes of padding in pinned host tensors; see the module-level `pinned_padding`."""
        return self._pinned_padding() + sum(feature.pinned_padding() for feature in self.features)

    def _pinned_padding(self) -> int:
        return 0

    def state_bytes(self, group: int, numel: int, default: int) -> int:
        """Return the bytes of a group's optimizer states, `default` unless a feature changes them."""
        for feature in self.features:
            default = feature.state_bytes(group, numel, default)
        return default

    # ------------------------------------------------------------ run
    def run(self) -> None:
        """Run one step; the last micro batch is the gradient accumulation boundary."""
        steps = self.setup.gradient_accumulation_steps
        # Micro batches between the first and the last are identical.
        for number in range(min(steps, MIDDLE + 2)):
            self.micro_step, self.repeats = (
                number,
                steps - MIDDLE - 1 if number == MIDDLE and steps > 2 else 1,
            )
            self.is_boundary = number == min(steps, MIDDLE + 2) - 1
            self.ledger.allocate("inputs", self.tape.input_bytes)
            self.ledger.enter("forward")
            micro_batch = ForwardBackwardPass(self.tape, self.ledger, self, self.setup.itemsize)
            self._before_forward()
            self._count_model_collectives("forward")
            micro_batch.forward()
            self.ledger.enter("backward")
            self._before_backward()
            for feature in self.features:
                feature.before_backward()
            self._count_model_collectives("backward")
            micro_batch.backward()
            self._after_backward()
            for feature in self.features:
                feature.after_backward()
            self.ledger.enter("step")
            if self.is_boundary:
                # The embedding output and its gradient (measured).
                input_grads = 2 * self.tape.input_grad_bytes
                self.ledger.allocate("activations", input_grads)
                self.step()
                self.ledger.free("activations", input_grads)
            self.ledger.free("inputs", self.tape.input_bytes)
        self._consolidate()
        self.ledger.enter("at rest")
        for feature in self.features:
            feature.after_run()

    def _count_model_collectives(self, phase: str) -> None:
        for collective in self.tape.collectives:
            if collective.phase == phase and collective.calls:
                self.count_collective(
                    collective.name, collective.numel, collective.itemsize, collective.ranks, collective.calls
                )

    def _consolidate(self) -> None:
        """Gather the whole model if its parameters are partitioned and the config requests it."""

    def _before_forward(self) -> None:
        """Prepare the engine for the forward pass of a micro batch."""

    def _before_backward(self) -> None:
        """Prepare the engine for the backward pass of a micro batch."""

    def _after_backward(self) -> None:
        """Finish the backward pass of a micro batch."""

    def step(self) -> None:
        """Update the weights at the end of a step."""
        for feature in self.features:
            feature.before_step()
        self._step()
        for feature in self.features:
            feature.after_step()

    def _step(self) -> None:
        raise NotImplementedError

    # ------------------------------------------------------------ hooks of a pass
    def enter_module(self, number: int, forward: bool) -> None:
        """Run the hook that precedes a module's forward or backward."""

    def leave_module(self, number: int, forward: bool) -> None:
        """Run the hook that follows a module's forward or backward."""

    def set_recomputing_module(self, number: int | None) -> None:
        """Set the module whose recomputation starts, or None at the end of the recomputation."""

    def hold_view(self, weight: ModelParameter) -> None:
        """Run the hook for a view of a weight that the autograd graph saves."""

    def release_view(self, weight: ModelParameter) -> None:
        """Run the hook for a saved view that is being freed."""

    def receive_gradient(self, weight: ModelParameter, count: int) -> None:
        """Run the hook for a complete gradient of `count` bytes."""
        for feature in self.features:
            feature.receive_gradient(weight, count)
        self._receive_gradient(weight, count)

    def _receive_gradient(self, weight: ModelParameter, count: int) -> None:
        raise NotImplementedError

    # ------------------------------------------------------------ services

    def count_collective(self, name: str, numel: int, itemsize: int, ranks: int = 0, count: int = 1) -> None:
        """Record `count` calls of a collective over a group of `ranks` ranks, by default all of them."""
        key = (self.ledger.rank.phase, name, itemsize, ranks or self.setup.dp_world_size)
        calls, total = self.calls.get(key, (0, 0))
        times = self.repeats * count
        self.calls[key] = (calls + times, total + numel * times)

    def update_group(self, group: int, numel: int, largest: int, *, host: bool = False) -> None:
        """Update a parameter group by a feature that handles it, or else as the engine does; see `update`."""
        if not any(feature.update_group(group, numel, host=host) for feature in self.features):
            self._update_group(numel, largest, host=host)

    def _update_group(self, numel: int, largest: int, *, host: bool) -> None:
        self.update(numel, largest, host=host)

    def update(self, numel: int, largest: int, *, host: bool = False) -> None:
        """Allocate the optimizer's temporary tensors for `numel` elements, `largest` of them in the largest tensor."""
        if self.updates_in_place:
            return
        rule = self.setup.optimizer
        # `OptimizerCost` counts fp32 masters; half-precision ones take half of it.
        scale = self.setup.master_itemsize / 4
        self.ledger.allocate_briefly(
            TEMPORARY,
            int((rule.temporary_bytes * numel + rule.largest_tensor_bytes * largest) * scale),
            host=host,
        )


# Features.


class Feature:
    """Part of DeepSpeed that changes an engine's memory; its methods are called at fixed points of a run.

    Every method does nothing by default. Several features of one engine are called in turn.
    """

    reduces_each_micro_batch = False
    """Whether gradients are reduced in every micro batch, not only at the gradient accumulation boundary."""

    engine: Engine

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.setup, self.ledger = engine.setup, engine.ledger

    # ------------------------------------------------------------ load

    def build(self) -> bool:
        """Build the model and move it to the device; return False to leave that to the engine."""
        return False

    def shard_model(self) -> None:
        """Replace modules of the model after it was built on the host."""

    def flatten_copy_bytes(self, weights: list[ModelParameter]) -> int:  # noqa: ARG002
        """Return the bytes of the copies made when these weights are flattened or partitioned."""
        return 0

    def before_partition(self) -> None:
        """Allocate what must exist before stage 3 partitions the parameters."""

    def after_zero_init(self) -> None:
        """Change parameters that `zero.Init` has created."""

    def is_on_nvme(self, weight: ModelParameter) -> bool:  # noqa: ARG002
        """Return whether the new shard of a parameter is stored on NVMe."""
        return False

    def allocate_offloaded_shards(self) -> bool:
        """Allocate the shards of offloaded parameters; return False to keep all of them on the host."""
        return False

    def before_masters(self) -> None:
        """Allocate what must exist before stage 3 creates the master weights."""

    def swap_out_masters(self, group: int, count: int) -> None:
        """Write `count` bytes of new master weights of a swapped sub-group to NVMe."""

    def creates_states_with_masters(self, group: int) -> bool:  # noqa: ARG002
        """Return whether a group's optimizer states are created with the master weights."""
        return False

    def load(self) -> None:
        """Allocate what the feature needs at the end of initialization."""

    # ------------------------------------------------------------ at rest

    def state_bytes(self, group: int, numel: int, default: int) -> int:  # noqa: ARG002
        """Return the bytes of a group's optimizer states, or `default` to leave them unchanged.

        `numel` is the number of elements in the group; below stage 3 all parameters are one group.
        """
        return default

    def allocate_at_rest(self) -> None:
        """Allocate what the feature keeps between steps."""

    def pinned_padding(self) -> int:
        """Return the bytes of padding in the feature's pinned host tensors."""
        return 0

    # ------------------------------------------------------------ backward

    def before_backward(self) -> None:
        """Prepare the feature for the backward pass of a micro batch."""

    def receive_gradient(self, weight: ModelParameter, count: int) -> None:
        """Handle a complete gradient of `count` bytes before the engine receives it."""

    def reduce(self, weights: list[ModelParameter], comm_itemsize: int) -> bool:  # noqa: ARG002
        """Reduce a bucket at stage 3; return False to leave that to the engine."""
        return False

    def before_reduce(self, weights: list[ModelParameter]) -> None:
        """Handle a bucket that is about to be reduced."""

    def after_reduce(self, weights: list[ModelParameter]) -> None:
        """Handle a reduced bucket while its result is still allocated."""

    def store_gradient(self, weight: ModelParameter) -> None:
        """Handle a reduced gradient at stage 3 after its shard has been copied."""

    def after_store(self) -> None:
        """Run after the gradients of a bucket have been stored at stage 3."""

    def after_backward(self) -> None:
        """Finish the backward pass of a micro batch."""

    # ------------------------------------------------------------ step

    def before_step(self) -> None:
        """Prepare the optimizer step."""

    def before_norm(self) -> None:
        """Change the gradients before the gradient norm is computed."""

    def update_group(self, group: int, numel: int, *, host: bool) -> bool:  # noqa: ARG002
        """Update a group's elements on the host or the rank; return False to leave this to the optimizer."""
        return False

    def after_step(self) -> None:
        """Finish the optimizer step."""

    def gather_on_save(self, module: Module) -> int:  # noqa: ARG002
        """Gather the parameters of a module that the feature has sharded, and return their bytes."""
        return 0

    def after_run(self) -> None:
        """Free the memory that only the first step needs."""


# Pinned host memory: `Tensor.pin_memory` allocates blocks of a power of two and caches them
# (ATen/core/CachingHostAllocator.h, `PowerOf2Ceil`).

PINNED = "pinned memory rounding"


def pinned_padding(blocks: Iterable[int]) -> int:
    """Return the bytes by which the blocks that torch pins exceed the tensors that they hold."""
    return sum((1 << (count - 1).bit_length()) - count for count in blocks if count > 1)
