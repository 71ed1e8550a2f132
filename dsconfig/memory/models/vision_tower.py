"""Image and audio encoders of composite models: patches, layers, and a projector to the language model."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from dsconfig.memory.autograd_graph import PROJECTOR, VISION_TOWER
from dsconfig.memory.layers import (
    AttentionHeads,
    activation,
    add_residual,
    attention,
    cast_tensor,
    linear,
    multiply_elementwise,
    norm_weights,
    normalize,
)
from dsconfig.memory.rotary import rotary, rotate

if TYPE_CHECKING:
    from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape, Module
    from dsconfig.memory.models.architecture import Architecture, MicroBatch, Resampler, Tower


class ModuleFactory(Protocol):
    """A function that creates a module from the end of its name and the sizes of its parameters."""

    def __call__(self, suffix: str, *sizes: int | tuple[int, ...], casts: bool = False) -> Module:
        """Create the module."""


class TowerLayer:
    """The modules of one encoder layer."""

    def __init__(self, new_module: ModuleFactory, tower: Tower, prefix: str) -> None:
        hidden, wide = tower.hidden_size, tower.intermediate_size
        self.tower = tower

        def module(name: str, *sizes: int | tuple[int, ...], casts: bool = False) -> Module:
            return new_module(f"{prefix}.{name}", *sizes, casts=casts)

        def projection(name: str, out: int, into: int, with_bias: bool) -> Module:
            return module(name, (out, into), *((out,) if with_bias else ()), casts=True)

        self.module = module("layer")
        self.norms = [module(f"norm{number}", *norm_weights(tower.norm, hidden)) for number in (1, 2)]
        names = ("q_proj", "k_proj", "v_proj", "o_proj")
        # The key projection is the first without a bias (Whisper).
        biased = ("q_proj", "v_proj", "o_proj", "k_proj")[: tower.biases]
        if tower.rotary == "fused":
            self.qkv = [projection("qkv", 3 * hidden, hidden, tower.biases > 0)]
        else:
            self.qkv = [projection(name, hidden, hidden, name in biased) for name in names[:3]]
        self.output = projection("o_proj", hidden, hidden, "o_proj" in biased)
        self.gate = projection("gate_proj", wide, hidden, tower.mlp_bias) if tower.is_gated else None
        self.up = projection("fc1", wide, hidden, tower.mlp_bias)
        self.down = projection("fc2", hidden, wide, tower.mlp_bias)
        self.other = module("other", tower.layer_other_numel) if tower.layer_other_numel else None

    def record(
        self, tape: ForwardTape, heads: AttentionHeads, batch: MicroBatch, x: ActivationTensor
    ) -> ActivationTensor:
        """Record the encoder layer and return its output."""
        rows, hidden, wide = heads.num_tokens, self.tower.hidden_size, self.tower.intermediate_size
        recomputes = (
            batch.gradient_checkpointing if batch.checkpoints_towers is None else batch.checkpoints_towers
        )
        with tape.record_module(self.module, x), tape.checkpoint(x, recomputes):
            y = normalize(tape, self.norms[0], x, rows, self.tower.norm)
            output = self._attention(tape, heads, batch, y)
            x = add_residual(tape, x, self._scaled(tape, linear(tape, self.output, output, rows, hidden)))
            y = normalize(tape, self.norms[1], x, rows, self.tower.norm)
            up = linear(tape, self.up, y, rows, wide)
            if self.tower.activation == "quick_gelu":
                y = _quick_gelu(tape, up)
            elif self.gate is None:
                y = activation(tape, None, up)
            else:
                y = multiply_elementwise(
                    tape, activation(tape, None, linear(tape, self.gate, y, rows, wide)), up
                )
            return add_residual(tape, x, self._scaled(tape, linear(tape, self.down, y, rows, hidden)))

    def _attention(
        self, tape: ForwardTape, heads: AttentionHeads, batch: MicroBatch, y: ActivationTensor
    ) -> ActivationTensor:
        rows, hidden, tower = heads.num_tokens, self.tower.hidden_size, self.tower
        if tower.rotary == "fused":
            qkv = linear(tape, self.qkv[0], y, rows, 3 * hidden)
            query, key = (rotary(tape, tape.op([qkv], tape.tensor(rows * hidden, 4)), 4) for _ in range(2))
            output = attention(
                tape,
                batch.attn_implementation,
                heads,
                cast_tensor(tape, query, qkv.itemsize),
                cast_tensor(tape, key, qkv.itemsize),
                qkv,
            )
            return tape.op([output], tape.tensor(output.numel, output.itemsize))  # of all images
        query, key, value = (linear(tape, module, y, rows, hidden) for module in self.qkv)
        if tower.rotary:
            query, key = rotate(tape, heads, query, key)
        kind = "eager" if tower.attends_eagerly else batch.attn_implementation
        return attention(tape, kind, heads, query, key, value)

    def _scaled(self, tape: ForwardTape, y: ActivationTensor) -> ActivationTensor:
        """Record the multiplication by a learned vector (InternViT's layer scale)."""
        if self.other is None:
            return y
        saved = [y] if self.other.weights[0].requires_grad else []
        with tape.record_module(self.other, y):
            return tape.op([y], tape.tensor(y.numel, y.itemsize), saved, self.other.weights)


def _quick_gelu(tape: ForwardTape, x: ActivationTensor) -> ActivationTensor:
    """Record `QuickGELUActivation`: the input times its sigmoid."""
    sigmoid = tape.tensor(x.numel, x.itemsize)
    tape.op([tape.op([x], tape.tensor(x.numel, x.itemsize))], sigmoid, [sigmoid])
    return multiply_elementwise(tape, x, sigmoid)


class ResamplerLayers:
    """The modules of a resampler: one layer of cross attention from learned queries to patches."""

    def __init__(self, new_module: ModuleFactory, resampler: Resampler, patch_size: int) -> None:
        hidden = resampler.hidden_size
        self.resampler = resampler
        self.query = new_module(".resampler", (resampler.num_queries, hidden))
        self.keys = new_module(".resampler.kv_proj", (hidden, patch_size), casts=True)
        names = ("q", "k", "v", "out")
        self.attention = {
            name: new_module(f".resampler.attn.{name}_proj", (hidden, hidden), hidden, casts=True)
            for name in names
        }
        self.norms = {
            name: new_module(f".resampler.{name}", hidden, hidden) for name in ("ln_q", "ln_kv", "ln_post")
        }
        self.output = new_module(".resampler.proj", (hidden, hidden), casts=True)

    def record(self, tape: ForwardTape, x: ActivationTensor, patches: int, tokens: int) -> ActivationTensor:
        """Record the attention of `tokens` queries to `patches` patches, and return the tokens."""
        hidden = self.resampler.hidden_size
        x = normalize(
            tape, self.norms["ln_kv"], linear(tape, self.keys, x, patches, hidden), patches, "layer"
        )
        with tape.record_module(self.query, x):
            query = tape.op([x], tape.tensor(tokens * hidden), weights=self.query.weights)
        query = normalize(tape, self.norms["ln_q"], query, tokens, "layer")
        positioned = tape.op([x], tape.tensor(x.numel, x.itemsize))
        inputs = {"q": (query, tokens), "k": (positioned, patches), "v": (x, patches)}
        query, key, value = (
            linear(tape, self.attention[name], y, rows, hidden) for name, (y, rows) in inputs.items()
        )
        output = tape.tensor(tokens * hidden, query.itemsize)
        y = tape.op([query, key, value], output, [query, key, value, output])
        y = linear(tape, self.attention["out"], y, tokens, hidden)
        y = normalize(tape, self.norms["ln_post"], y, tokens, "layer")
        return linear(tape, self.output, y, tokens, hidden)


class VisionTower:
    """The modules of an encoder and its projector."""

    def __init__(self, tape: ForwardTape, arch: Architecture, tower: Tower, batch: MicroBatch) -> None:
        self.arch, self.tower = arch, tower
        bias = (tower.hidden_size,) if tower.patch_bias else ()
        beside_adapters = batch.trains_towers_beside_adapters
        encode = partial(
            self._new_module, tape, VISION_TOWER, batch.trains_towers and not tower.is_frozen, beside_adapters
        )
        # A model that freezes its encoder trains its projector next to adapters (llava/train/train.py).
        project = partial(
            self._new_module, tape, PROJECTOR, batch.trains_towers, beside_adapters or tower.is_frozen
        )
        self.module = encode("", inputs_require_grad=False)
        self.patches = encode(
            ".patch_embed",
            (tower.hidden_size, tower.patch_numel),
            *bias,
            casts=True,
            inputs_require_grad=False,
        )
        self.other = encode(".other", tower.other_numel) if tower.other_numel else None
        self.layers = [TowerLayer(encode, tower, f".layers.{index}") for index in range(tower.num_layers)]
        size = tower.projector_norm
        self.projector_norm = project(".projector.norm", *norm_weights(tower.norm, size)) if size else None
        self.projector_other = (
            project(".projector", tower.projector_other_numel) if tower.projector_other_numel else None
        )
        self.projector = [
            project(f".projector.{index}", (out, into), *((out,) if with_bias else ()), casts=True)
            for index, (out, into, with_bias) in enumerate(tower.projector)
        ]
        self.resampler = (
            ResamplerLayers(project, tower.resampler, tower.hidden_size) if tower.resampler else None
        )

    def _new_module(
        self,
        tape: ForwardTape,
        role: str,
        trains: bool,
        beside_adapters: bool,
        suffix: str,
        *sizes: int | tuple[int, ...],
        casts: bool = False,
        inputs_require_grad: bool = True,
    ) -> Module:
        """Create a module of the encoder or projector, which adapters leave frozen unless it is trained beside them."""
        adapter = tape.adapter
        if beside_adapters:
            tape.adapter = None
        module = tape.module(
            f"{self.tower.name}{suffix}",
            *sizes,
            requires_grad=trains,
            casts=casts,
            inputs_require_grad=inputs_require_grad,
            role=role,
        )
        tape.adapter = adapter
        return module

    def record(self, tape: ForwardTape, batch: MicroBatch, x: ActivationTensor) -> ActivationTensor:
        """Encode the images of a batch, and write their tokens into the embeddings `x`."""
        tower, hidden = self.tower, self.tower.hidden_size
        tokens = tokens_of_tower(self.arch, tower, batch)
        patches = tower.patches_of(tokens)
        rows = batch.micro_batch_size * patches
        images = patches // tower.image_patches if tower.image_patches else 1
        if not images or patches % images:
            images = 1
        heads = AttentionHeads(
            *(tower.num_heads, tower.num_heads, hidden // tower.num_heads),
            batch.micro_batch_size * images,
            patches // images,
            has_no_mask=True,
        )
        pixels = rows * tower.patch_numel
        tape.input_bytes += pixels * batch.itemsize
        with tape.record_module(self.module):
            image = tape.tensor(pixels, batch.itemsize, requires_grad=False)
            image.bytes = 0  # counted as an input
            with tape.record_module(self.patches):
                saved = [image] if self.patches.weights[0].requires_grad else []
                y = tape.op([image], tape.tensor(rows * hidden), saved, self.patches.weights)
            y = self._add_other(tape, self.other, y)
            for layer in self.layers:
                y = layer.record(tape, heads, batch, y)
        if self.projector_norm is not None:
            vectors = y.numel // tower.projector_norm
            y = normalize(tape, self.projector_norm, y, vectors, tower.norm)
        y = self._add_other(tape, self.projector_other, y)
        if self.resampler is not None:
            y = self.resampler.record(tape, y, rows, batch.micro_batch_size * tokens)
        rows = batch.micro_batch_size * (patches if tower.projects_patches else tokens)
        for index, (module, (out, _, _)) in enumerate(zip(self.projector, tower.projector, strict=True)):
            y = linear(tape, module, activation(tape, None, y) if index else y, rows, out)
        mask = self._mask(tape, batch)
        return tape.op([x, y, mask], tape.tensor(x.numel, x.itemsize), [mask])

    @staticmethod
    def _add_other(tape: ForwardTape, module: Module | None, y: ActivationTensor) -> ActivationTensor:
        """Record the addition of position embeddings, or of norms whose tensors are unknown."""
        if module is None:
            return y
        with tape.record_module(module, y):
            return tape.op([y], tape.tensor(y.numel, y.itemsize), weights=module.weights)

    @staticmethod
    def _mask(tape: ForwardTape, batch: MicroBatch) -> ActivationTensor:
        """Return the mask of `masked_scatter`, a view with one element per token."""
        return tape.op(
            [], tape.tensor(batch.micro_batch_size * batch.sequence_length, 1, requires_grad=False)
        )


def tokens_of_tower(arch: Architecture, tower: Tower, batch: MicroBatch) -> int:
    """Return the number of tokens of a sequence that come from an encoder.

    They are those of one image if the number is not given. An audio encoder next to an image encoder gets none.
    """
    if tower.is_audio and any(not other.is_audio for other in arch.towers):
        return 0
    tokens = tower.image_tokens if batch.image_tokens is None else batch.image_tokens
    return min(tokens, batch.sequence_length)
