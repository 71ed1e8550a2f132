"""Graph of a forward pass, and the lifetimes that a pass gives its tensors, worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dsconfig.memory.autograd_graph import ForwardTape, LoraAdapter, Quantization
from dsconfig.memory.engines.forward_backward import module_hook_calls, modules_never_left
from dsconfig.memory.layers import linear, lm_head
from dsconfig.memory.models.architecture import Architecture
from tests.memory.tiny import HIDDEN, INPUT, OUTPUT, run, tiny_setup, two_layers


def checkpointed(active: bool) -> ForwardTape:
    """The two layers, of which the second can be checkpointed."""
    tape = ForwardTape(2)
    first, second = tape.projection("first", 4, 2), tape.projection("second", 3, 4)
    x = tape.op([], tape.tensor(INPUT, requires_grad=False))
    with tape.record_module(first):
        y = tape.op([x], tape.tensor(HIDDEN), [x], first.weights)
    with tape.checkpoint(y, active), tape.record_module(second):
        wide = tape.op([y], tape.tensor(10 * HIDDEN), [y], second.weights)
        z = tape.op([wide], tape.tensor(OUTPUT), [wide])
    tape.op([z], tape.tensor(1))
    return tape


def test_hooks_run_in_order() -> None:
    visits = [
        (visit.module.name, visit.is_entry, visit.is_backward)
        for visit in module_hook_calls(two_layers().steps)
    ]
    assert visits == [
        ("first", True, False),
        ("first", False, False),
        ("second", True, False),
        ("second", False, False),
        ("second", True, True),
        ("second", False, True),
        ("first", True, True),  # the input needs no gradient, so the backward hook of `first` never fires
    ]
    assert [module.name for module in modules_never_left(module_hook_calls(two_layers().steps))] == ["first"]


def test_a_checkpointed_segment_keeps_its_input_only() -> None:
    whole = run(tiny_setup(0), checkpointed(False))[1].rank.peaks
    segment = run(tiny_setup(0), checkpointed(True))[1].rank.peaks
    # As the loss is computed, `wide` is saved without a checkpoint and gone with one.
    assert whole["forward"].live["activations"] == 2 * (INPUT + HIDDEN + 10 * HIDDEN + OUTPUT + 1)
    # Then the peak is where `wide` becomes `z`.
    assert segment["forward"].live["activations"] == 2 * (INPUT + HIDDEN + 10 * HIDDEN + OUTPUT)
    assert segment["backward"].live["activations"] == whole["backward"].live["activations"]


def test_only_the_adapters_of_a_lora_model_are_trained() -> None:
    tape = ForwardTape(2, adapter=LoraAdapter(rank=1, targets=frozenset({"second"})))
    tape.projection("first", 4, 2)
    tape.projection("second", 3, 4)
    trained = {weight.name: weight.shape for weight in tape.weights if weight.requires_grad}
    assert trained == {"second.lora_A.default": (1, 4), "second.lora_B.default": (3, 1)}


def test_frozen_layers_next_to_adapters_are_packed() -> None:
    nibbles = Quantization("4 bits, and half a byte of scales for each weight", 4, Fraction(1, 2))
    adapter = LoraAdapter(rank=1, targets=frozenset({"second"}))
    tape = ForwardTape(2, adapter=adapter, quantization=nibbles)
    tape.projection("first", 4, 2)
    tape.projection("second", 3, 4)
    # Bytes are counted in elements of the tape's two bytes.
    packed = {weight.name: weight.numel for weight in tape.weights if not weight.requires_grad}
    assert list(packed.values()) == [8 // 2 // 2, 12 // 2 // 2]
    assert tape.buffer_bytes == 8 // 2 + 12 // 2


@pytest.mark.parametrize("is_tied", [True, False])
def test_saved_modules_are_copies_next_to_frozen_originals(is_tied: bool) -> None:
    """PEFT copies a saved module (`ModulesToSaveWrapper`); a tied head gets its own copy, and no second original."""
    saved = frozenset({"embed_tokens", "lm_head"})
    tape = ForwardTape(2, adapter=LoraAdapter(1, frozenset({"q_proj"}), saved_modules=saved))
    arch = Architecture("decoder", 4, 1, 8, vocab_size=10, tie_word_embeddings=is_tied)
    words = tape.module("model.embed_tokens", (10, 4), casts=is_tied)
    head = lm_head(tape, words, arch)
    trained = [weight.name for weight in tape.weights if weight.requires_grad]
    assert trained == ["model.embed_tokens", "lm_head"]
    assert sum(not weight.requires_grad for weight in tape.weights) == (1 if is_tied else 2)
    assert [weight.numel for weight in head.weights] == [40]


def test_a_frozen_tied_head_reads_the_original_embeddings() -> None:
    tape = ForwardTape(2, adapter=LoraAdapter(1, frozenset(), saved_modules=frozenset({"embed_tokens"})))
    words = tape.module("model.embed_tokens", (10, 4), casts=True)
    head = lm_head(tape, words, Architecture("decoder", 4, 1, 8, vocab_size=10, tie_word_embeddings=True))
    assert [weight.requires_grad for weight in (*words.weights, *head.weights)] == [True, False]


def test_gptq_keeps_unpacked_weights_until_the_backward_pass() -> None:
    """A matmul of unpacked weights saves them, unlike bitsandbytes' function, which unpacks them twice."""
    saved = {}
    for keeps in (False, True):
        nibbles = Quantization("4 bits", 4, Fraction(1, 2), saves_dequantized=keeps)
        tape = ForwardTape(2, adapter=LoraAdapter(1, frozenset({"second"})), quantization=nibbles)
        layer = tape.projection("first", 4, 2)
        linear(tape, layer, tape.tensor(6), 3, 4)
        saved[keeps] = sum(tensor.bytes for step in tape.operations for tensor in step.saved)
    assert saved == {False: 0, True: 2 * 4 * 2}


def test_row_parallel_layers_keep_their_bias_whole() -> None:
    tape = ForwardTape(2)
    tape.projection("mlp.up_proj", 8, 2, 8)
    tape.projection("mlp.down_proj", 2, 8, 2)
    tape.apply_tensor_parallel(2, head=False)
    assert [weight.tp_size for weight in tape.weights] == [2, 2, 2, 1]
