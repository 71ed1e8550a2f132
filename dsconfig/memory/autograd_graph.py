"""The autograd graph of a model's forward pass: operations, saved tensors, and the order of module hooks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from math import prod
from typing import Literal, NamedTuple, TypeAlias

# Recorded forward pass: operations with their inputs, outputs and saved tensors.

Sizes: TypeAlias = "int | tuple[int, ...]"
"""Shape of a parameter; a vector's shape is a plain int."""
ROW_PARALLEL = (".o_proj", ".down_proj")
"""Row-parallel layers under AutoTP (`LinearAllreduce`): each rank holds some columns, and the outputs are summed.
"""


class ModelParameter:
    """A model parameter; `number` is its index in `named_parameters()`."""

    __slots__ = (
        "created_after_init",
        "is_autocast",
        "is_expert",
        "is_linear",
        "module_number",
        "name",
        "number",
        "numel",
        "original_numel",
        "requires_grad",
        "saves_view",
        "shape",
        "stays_fp32",
        "tp_size",
        "use_count",
    )

    def __init__(
        self, number: int, module: int, name: str, shape: Sizes, requires_grad: bool, casts: bool
    ) -> None:
        self.number, self.name = number, name
        self.shape = shape if isinstance(shape, tuple) else (shape,)
        self.numel = prod(self.shape)
        self.original_numel = 0
        """Number of weights, if quantization packs them into `numel` elements."""
        self.requires_grad, self.is_autocast = requires_grad, casts
        self.is_linear = casts
        """Whether gradients and gathers use the autocast dtype, which applies to `nn.Linear` weights only."""
        self.saves_view = casts
        """Whether a matmul saves a view of the weight, which keeps its storage alive after `param.data` is
        replaced.
        """
        self.stays_fp32 = False
        """Whether the parameter stays in fp32 in a half-precision model (LoRA adapters)."""
        self.is_expert = False
        """Whether the parameter belongs to experts that AutoEP distributes over ranks."""
        self.created_after_init = False
        """Whether DeepSpeed creates or replaces the parameter after the model is constructed (AutoTP, AutoEP)."""
        self.module_number = module
        """Number of the module that created the parameter."""
        self.tp_size = 1
        """Number of tensor-parallel ranks that share the parameter; `numel` is the part on one rank."""
        self.use_count = 0
        """Number of operations that read the parameter, which is above 1 for tied weights."""


Loss: TypeAlias = 'Literal["full", "chunked", "fused"]'


class FusedKernels(NamedTuple):
    """Which fused kernels the loss, the norms and the MLPs use."""

    loss: Loss = "full"
    """Cross entropy over all logits, over chunks of tokens that are recomputed (TRL's `chunked_nll`), or fused with the
    output projection (Liger, cut cross entropy), which keeps no logits.
    """
    fused_norms: bool = False
    """Whether RMS norms save only their input, as Liger's do."""
    fused_mlp: bool = False
    """Whether the gated activation saves only its two inputs, as Liger's does."""
    offloads_checkpoints: bool = False
    """Whether the inputs of checkpointed segments are kept on the host."""
    is_liger: bool = False
    """Whether these are the kernels that Liger provides for the model type."""


ObjectiveKind: TypeAlias = (
    'Literal["likelihood", "preference", "preference_in_fp32", "likelihood_and_preference", "policy_gradient", '
    '"divergence", "score"]'
)


class TrainingObjective(NamedTuple):
    """The loss of a training method, and the logits from which it is computed."""

    kind: ObjectiveKind = "likelihood"
    """Kind of loss, which decides how many tensors of the size of the logits exist; see `losses`."""
    has_reference: bool = False
    """Whether a reference model computes its logits during a step, after the trained model."""
    sequences_per_language_sequence: int = 1
    """Number of sequences in a micro batch for each one with logits: 2 if a value model runs as well (PPO)."""


class Quantization(NamedTuple):
    """How the frozen layers of a quantized model are stored."""

    name: str
    bits: int
    constants: Fraction
    """Bytes of scales and offsets per weight."""

    saves_dequantized: bool = False
    """Whether the backward pass of a layer uses the weights dequantized in the forward pass, which autograd saves."""
    packs_experts: bool = False
    """Whether experts are packed too; Transformers 5 keeps all experts of a layer in shared tensors."""

    def packed_bytes(self, numel: int) -> int:
        """Return the size of `numel` quantized weights in bytes."""
        return -(-numel * self.bits // 8)

    def constant_bytes(self, numel: int) -> int:
        """Return the size in bytes of the scales and offsets for `numel` weights."""
        return int(numel * self.constants)


VISION_TOWER, PROJECTOR = "vision_tower", "projector"
SAVED_MODULE_ROLES = {
    **dict.fromkeys(
        ("embed_tokens", "wte", "word_embeddings", "embed_in", "embedding", "tok_embeddings"), "embed_tokens"
    ),
    **dict.fromkeys(("lm_head", "embed_out", "output_layer"), "lm_head"),
    **dict.fromkeys((VISION_TOWER, "vision_model", "visual", "vpm"), VISION_TOWER),
    **dict.fromkeys((PROJECTOR, "multi_modal_projector", "resampler", "mlp1", "aligner"), PROJECTOR),
}
"""Role of the modules with these names, by which `modules_to_save` refers to embeddings, head and encoders."""


class LoraAdapter(NamedTuple):
    """LoRA settings (PEFT); all base weights are frozen, and each target layer gets two trainable matrices."""

    rank: int
    targets: frozenset[str]
    """Last components of the target modules' names; empty means every linear layer except the head."""
    dropout: float = 0.0
    stays_fp32: bool = False
    """Whether adapters stay in fp32 in a half-precision model (PEFT's `cast_adapter_dtype`)."""
    saved_modules: frozenset[str] = frozenset()
    """Which of `embed_tokens` and `lm_head` are trained whole next to the adapters (PEFT's `modules_to_save`)."""


class LoraModules(NamedTuple):
    """Submodules of PEFT's LoRA `Linear` wrapper."""

    base: Module
    dropout: Module
    lora_a: Module
    lora_b: Module


class Module:
    """A module and its direct parameters.

    If `inputs_require_grad`, gradients flow to the module's inputs, so its post-backward hook fires.
    """

    __slots__ = (
        "class_name",
        "external_params",
        "inputs_require_grad",
        "lora_modules",
        "name",
        "number",
        "original_weights",
        "weights",
    )

    def __init__(
        self, number: int, name: str, weights: Sequence[ModelParameter], inputs_require_grad: bool
    ) -> None:
        self.number, self.name, self.weights, self.inputs_require_grad = (
            number,
            name,
            tuple(weights),
            inputs_require_grad,
        )
        self.class_name = ""
        """Class name, set only where a setting such as `leaf_module.classes` can refer to the class."""
        self.lora_modules: LoraModules | None = None
        self.original_weights = self.weights
        """Frozen weights from which PEFT copied `weights` to train them (`ModulesToSaveWrapper`), else `weights`."""
        self.external_params: tuple[ModelParameter, ...] = ()
        """Parameters of other modules that this module's forward reads (`register_external_parameter`)."""

    @property
    def params_to_fetch(self) -> tuple[ModelParameter, ...]:
        """Parameters that stage 3 gathers before the module runs (`iter_params`)."""
        return self.weights + self.external_params


class ActivationTensor:
    """An activation: its numel, dtype, number of readers, and whether it requires a gradient."""

    __slots__ = ("bytes", "itemsize", "label", "numel", "reader_count", "refcount", "requires_grad")

    def __init__(self, numel: int, itemsize: int, requires_grad: bool, label: str) -> None:
        self.numel, self.itemsize, self.requires_grad, self.label = numel, itemsize, requires_grad, label
        self.bytes = numel * itemsize
        """Size in bytes of the tensor, and also of its gradient."""
        self.reader_count = self.refcount = 0


class Operation:
    """A node of the autograd graph.

    `temporary` and `backward_temporary` are bytes allocated only during the operation's forward and backward. With
    `shares_grad`, the inputs receive the gradient of the output itself, without a new tensor.
    """

    __slots__ = (
        "backward_temporary",
        "inputs",
        "output",
        "saved",
        "shares_grad",
        "temporary",
        "weights",
    )

    def __init__(
        self,
        inputs: tuple[ActivationTensor, ...],
        output: ActivationTensor,
        saved: tuple[ActivationTensor, ...],
        weights: tuple[ModelParameter, ...],
        temporary: int,
        backward_temporary: int,
        shares_grad: bool,
    ) -> None:
        self.inputs, self.output, self.saved, self.weights = inputs, output, saved, weights
        self.temporary, self.backward_temporary, self.shares_grad = (
            temporary,
            backward_temporary,
            shares_grad,
        )

    @property
    def saves_for_backward(self) -> bool:
        """Whether the operation saves inputs or weights for the backward pass."""
        return self.output.requires_grad and bool(
            self.saved or (self.weights and any(tensor.requires_grad for tensor in self.inputs))
        )


class EnterModule:
    """Start of a module's forward, and end of its backward if the module's input requires a gradient."""

    __slots__ = ("module", "requires_grad")

    def __init__(self, module: Module) -> None:
        self.module, self.requires_grad = module, True


class LeaveModule:
    """End of a module's forward, and start of its backward if the module's output requires a gradient."""

    __slots__ = ("module", "requires_grad")

    def __init__(self, module: Module, requires_grad: bool) -> None:
        self.module, self.requires_grad = module, requires_grad


class CheckpointedSegment:
    """A checkpointed segment: only its input is kept, and its steps run again in the backward pass.

    If `is_offloaded`, the input is kept on the host, and copied back before the recomputation.
    """

    __slots__ = ("is_offloaded", "source", "steps")

    def __init__(self, source: ActivationTensor, is_offloaded: bool = False) -> None:
        self.source, self.is_offloaded, self.steps = source, is_offloaded, list[Step]()

    def split(self) -> tuple[list[Step], list[Step]]:
        """Split the steps into those that are recomputed, up to the last one that saves a tensor, and the rest.

        torch stops the recomputation at that step (`_StopRecomputationError`, torch/utils/checkpoint.py).
        """
        # torch raises `_StopRecomputationError` once every saved tensor is recomputed, so later steps do not
        # run.
        for index in reversed(range(len(self.steps))):
            step = self.steps[index]
            if isinstance(step, Operation) and step.saves_for_backward:
                return self.steps[: index + 1], self.steps[index + 1 :]
        return [], self.steps


class DropReferences:
    """The point in a forward pass at which the last Python references to some tensors are dropped."""

    __slots__ = ("tensors",)

    def __init__(self, tensors: tuple[ActivationTensor, ...]) -> None:
        self.tensors = tensors


Step: TypeAlias = "Operation | EnterModule | LeaveModule | CheckpointedSegment | DropReferences"


class ModuleScope:
    """Context manager that records a module's forward between `EnterModule` and `LeaveModule`."""

    __slots__ = ("arguments", "entered", "start", "tape")

    def __init__(self, tape: ForwardTape, module: Module, arguments: tuple[ActivationTensor, ...]) -> None:
        self.tape, self.start, self.entered = tape, len(tape.operations), EnterModule(module)
        self.arguments = arguments

    def __enter__(self) -> None:
        """Record the start of the module's forward."""
        self.tape.steps.append(self.entered)

    def __exit__(self, *_: object) -> None:
        """Record the end of the module's forward, and whether its inputs and output require gradients."""
        operations, requires_grad = self.tape.operations, True
        if len(operations) > self.start:
            requires_grad = operations[-1].output.requires_grad
            if inputs := operations[self.start].inputs:
                self.entered.requires_grad = any(tensor.requires_grad for tensor in inputs)
        self.tape.steps.append(LeaveModule(self.entered.module, requires_grad))
        if self.arguments:
            self.tape.keep_alive(*self.arguments)


class ForwardTape:
    """A model under construction, and a recording of its forward pass."""

    def __init__(
        self,
        itemsize: int,
        autocast: bool = False,
        saves_linear_inputs: bool = False,
        adapter: LoraAdapter | None = None,
        on_cpu: bool = False,
        kernels: FusedKernels | None = None,
        quantization: Quantization | None = None,
        objective: TrainingObjective | None = None,
        trains_language_model: bool = True,
    ) -> None:
        self.objective = objective or TrainingObjective()
        self.trains_language_model = trains_language_model
        self.itemsize, self.autocast, self.saves_linear_inputs = itemsize, autocast, saves_linear_inputs
        self.adapter, self.on_cpu = adapter, on_cpu
        self.kernels, self.quantization = kernels or FusedKernels(), quantization
        self.buffer_bytes = 0
        """Bytes of constants that no engine partitions, such as the scales of quantized weights."""
        self.linear_names: dict[str, None] = {}
        """Last components of linear layer names, which are the possible LoRA targets."""
        self.weights: list[ModelParameter] = []
        self.modules: list[Module] = []
        self.steps: list[Step] = []
        self.operations: list[Operation] = []
        """Every operation, including those inside checkpointed segments."""
        self.input_bytes = 0
        """Bytes of the batch, which stays allocated during the whole pass."""
        self.input_grad_bytes = 0
        """Bytes of a frozen embedding's output, if the backward pass ends there."""
        self.tp_size = 1
        """Number of tensor-parallel ranks."""
        self.ep_size = 1
        """Number of expert-parallel ranks (AutoEP)."""
        self.collectives: list[ModelCollective] = []
        self.untied_numel = 0
        """Number of elements in parameters that are built and then replaced by tied ones, such as the `lm_head`."""

    def module(
        self,
        name: str,
        *sizes: Sizes,
        inputs_require_grad: bool = True,
        requires_grad: bool = True,
        casts: bool = False,
        role: str | None = None,
    ) -> Module:
        """Create a module with parameters of these sizes; `casts` says whether autocast casts them."""
        requires_grad = requires_grad and self.adapter is None
        requires_grad = requires_grad and (self.trains_language_model or role is not None)
        if self.trains_whole(name, role) and sizes:
            adapter, self.adapter = self.adapter, None
            copy = self.module(name, *sizes, inputs_require_grad=inputs_require_grad, casts=casts)
            self.adapter = adapter
            original = self.module(f"{name}.original_module", *sizes, casts=casts)
            copy.original_weights = original.weights
            return copy
        params = list[ModelParameter]()
        for size in sizes:
            params.append(
                ModelParameter(len(self.weights), len(self.modules), name, size, requires_grad, casts)
            )
            self.weights += params[-1:]
        module = Module(len(self.modules), name, params, inputs_require_grad)
        self.modules.append(module)
        return module

    def trains_whole(self, name: str, role: str | None = None) -> bool:
        """Return whether a full copy of the module is trained next to the adapters (PEFT's `modules_to_save`)."""
        role = role or SAVED_MODULE_ROLES.get(name.rpartition(".")[2])
        return self.adapter is not None and role in self.adapter.saved_modules

    def projection(
        self, name: str, out: int, into: int, *bias: int, inputs_require_grad: bool = True
    ) -> Module:
        """Create a linear layer, wrapped in LoRA modules if LoRA targets it."""
        last, adapter = name.rpartition(".")[2], self.adapter
        self.linear_names[last] = None
        if adapter is None or (adapter.targets and last not in adapter.targets):
            module = self.module(
                name, (out, into), *bias, inputs_require_grad=inputs_require_grad, casts=True
            )
            self.quantize_weight(module.weights[0])
            return module
        wrapper = self.module(name, inputs_require_grad=inputs_require_grad)
        base = self.module(
            f"{name}.base_layer", (out, into), *bias, inputs_require_grad=inputs_require_grad, casts=True
        )
        self.quantize_weight(base.weights[0])
        dropout = self.module(f"{name}.lora_dropout.default", inputs_require_grad=inputs_require_grad)
        self.adapter = None  # LoRA matrices are trainable
        first = self.module(
            f"{name}.lora_A.default",
            (adapter.rank, into),
            inputs_require_grad=inputs_require_grad,
            casts=True,
        )
        second = self.module(f"{name}.lora_B.default", (out, adapter.rank), casts=True)
        self.adapter = adapter
        for weight in (*first.weights, *second.weights):
            weight.stays_fp32 = adapter.stays_fp32
        wrapper.lora_modules, wrapper.external_params = (
            LoraModules(base, dropout, first, second),
            first.weights,
        )
        return wrapper

    def quantize_weight(self, weight: ModelParameter) -> None:
        """Pack a frozen weight; each pass dequantizes it into a temporary tensor."""
        if self.quantization is not None:
            weight.original_numel = weight.numel
            self.buffer_bytes += self.quantization.constant_bytes(weight.numel)
            weight.numel = -(-self.quantization.packed_bytes(weight.numel) // self.itemsize)

    def quantize_experts(self, module: Module) -> None:
        """Pack the expert matrices of a layer if experts are quantized."""
        if self.quantization is not None and self.quantization.packs_experts:
            for weight in module.weights:
                if len(weight.shape) > 1:
                    self.quantize_weight(weight)

    def unpack_experts(self, weights: Sequence[ModelParameter]) -> list[ActivationTensor]:
        """Dequantize the packed experts of a layer, which matmuls then save for the backward pass.

        bitsandbytes registers a parametrization, which dequantizes all experts of a layer at once (nn/parametrize.py).
        """
        return [
            self.op([], self.tensor(weight.original_numel, requires_grad=False))
            for weight in weights
            if weight.original_numel
        ]

    def tensor(
        self, numel: int, itemsize: int = 0, requires_grad: bool = True, label: str = "activations"
    ) -> ActivationTensor:
        """Create a tensor, by default in the model's dtype."""
        return ActivationTensor(numel, itemsize or self.itemsize, requires_grad, label)

    def op(
        self,
        inputs: Sequence[ActivationTensor],
        output: ActivationTensor,
        saved: Sequence[ActivationTensor] = (),
        weights: Sequence[ModelParameter] = (),
        temporary: int = 0,
        backward_temporary: int = 0,
        shares_grad: bool = False,
    ) -> ActivationTensor:
        """Record an operation and return its output."""
        operation = Operation(
            tuple(inputs),
            output,
            tuple(saved),
            tuple(weights),
            temporary,
            backward_temporary,
            shares_grad,
        )
        self.steps.append(operation)
        self.operations.append(operation)
        requires_grad = False
        for tensor in inputs:
            tensor.reader_count += 1
            requires_grad = requires_grad or tensor.requires_grad
        for weight in weights:
            weight.use_count += 1
            requires_grad = requires_grad or weight.requires_grad
        if not requires_grad:
            output.requires_grad = False
        return output

    def keep_alive(self, *tensors: ActivationTensor) -> None:
        """Record that Python variables hold these tensors until this point of the forward pass."""
        for tensor in tensors:
            tensor.reader_count += 1
        self.steps.append(DropReferences(tensors))

    def enable_input_grad(self, embedded: ActivationTensor) -> None:
        """Make the output of a frozen embedding require gradients (PEFT's `enable_input_require_grads`)."""
        if not embedded.requires_grad:
            embedded.requires_grad, self.input_grad_bytes = True, embedded.bytes

    def add_transient(self, count: int) -> None:
        """Allocate `count` bytes briefly at the end of the forward pass, when all activations are alive."""
        index = next(n for n in reversed(range(len(self.steps))) if isinstance(self.steps[n], Operation))
        self.steps.insert(
            index, Operation((), ActivationTensor(0, 1, False, "temporaries"), (), (), count, 0, False)
        )

    def record_module(self, module: Module, *arguments: ActivationTensor) -> ModuleScope:
        """Return a context manager that records a module's forward, during which the caller holds `arguments`."""
        return ModuleScope(self, module, arguments)

    @contextmanager
    def checkpoint(self, source: ActivationTensor, active: bool) -> Iterator[None]:
        """Record the body of a `with` statement as a checkpointed segment if `active` is true."""
        if not active:
            yield
            return
        outer_steps, segment = self.steps, CheckpointedSegment(source, self.kernels.offloads_checkpoints)
        self.steps = segment.steps
        yield
        self.steps = outer_steps
        self.steps.append(segment)

    def apply_tensor_parallel(self, ranks: int, head: bool) -> None:
        """Shard the linear layers over `ranks`, and with `head`, also the LM head.

        Sharded layers are no longer `nn.Linear`, so autocast's communication dtype and stage 3's
        memory-efficient linear do not apply to them.
        """
        self.tp_size = ranks
        for module in self.modules:
            # The bias of a row-parallel layer is added once, after the all-reduce, so it is not sharded.
            summed = module.name.endswith(ROW_PARALLEL)
            for weight in module.weights[: 1 if summed else None]:
                if weight.is_linear and (head or module.name != "lm_head"):
                    weight.tp_size, weight.created_after_init, weight.is_linear = ranks, True, False


# Tensor parallelism (AutoTP) and the collectives inside a model.


class TensorParallelSettings(NamedTuple):
    """The number of tensor-parallel ranks, and which layers the DeepSpeed release can shard."""

    size: int = 1
    may_shard_lm_head: bool = True
    """Whether the head is sharded: `gather_output` in the plans of Transformers is supported from 0.19.4 on."""
    reads_tp_plans: bool = True
    """Whether the release supports every style in the plans of Transformers (0.19.6), such as replicated norms."""

    def shards_lm_head(self, head_norms: bool) -> bool:
        """Return whether the model's LM head is sharded.

        Before 0.19.6, plans do not support query/key norms, so layers are found by name instead.
        """
        return self.may_shard_lm_head and (self.reads_tp_plans or not head_norms)


class ModelCollective(NamedTuple):
    """A collective operation per micro batch due to tensor, sequence or expert parallelism."""

    name: str
    phase: str
    calls: int
    numel: int
    """Number of elements in each call."""
    itemsize: int
    ranks: int
