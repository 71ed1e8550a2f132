"""Which keys are taken for a slip of which others, and which are just unknown."""

from __future__ import annotations

import random
import time

import pytest

from dsconfig.core.did_you_mean import edit_distance, index_words, similar_words
from dsconfig.core.json_types import Json
from dsconfig.core.releases import NUMBERS
from dsconfig.model.key_table import ROOT, section_view_of_release
from dsconfig.rules._suggest_key import guess_intended_key

RELEASE = NUMBERS["0.19.8"]
ZERO = "ZeroOptimization"

MEANT = [
    (ROOT, "zero_optimzation", {"stage": 3}, "zero_optimization"),
    (ROOT, "zero_opt", {"stage": 3}, "zero_optimization"),
    (ROOT, "trainBatchSize", 8, "train_batch_size"),
    (ROOT, "tran_batch_size", 8, "train_batch_size"),
    (ROOT, "gradient_cliping", 1.0, "gradient_clipping"),
    (ROOT, "grad_clip", 1.0, "gradient_clipping"),
    (ROOT, "steps_per_prnit", 10, "steps_per_print"),
    (ROOT, "optim", {"type": "Adam"}, "optimizer"),
    (ROOT, "sheduler", {"type": "WarmupLR"}, "scheduler"),
    (ROOT, "bp16", {"enabled": True}, "bf16 fp16"),
    (ROOT, "activation_checkpoint", {}, "activation_checkpointing"),
    (ROOT, "sequence_parallel", 2, "sequence_parallel_size"),
    (ZERO, "stge", 3, "stage"),
    (ZERO, "stag", 3, "stage"),
    (ZERO, "sage", 3, "stage"),
    (ZERO, "Stage", 3, "stage"),
    (ZERO, "comm_overlap", True, "overlap_comm"),
    (ZERO, "comm_ovrlap", True, "overlap_comm"),
    (ZERO, "overlap_communication", True, "overlap_comm"),
    (ZERO, "contiguous_grads", True, "contiguous_gradients"),
    (ZERO, "offload_optim", {"device": "cpu"}, "offload_optimizer"),
    (ZERO, "reduce_bucket", 1, "reduce_bucket_size"),
    (ZERO, "stage3_param_persitance_threshold", 1, "stage3_param_persistence_threshold"),
    ("Optimizer", "typ", "Adam", "type"),
    ("Optimizer", "param", {"lr": 0.1}, "params"),
]
UNKNOWN = [
    *(
        (ROOT, word, 1)
        for word in ["seed", "epochs", "lr", "logging", "moe", "data_path", "max_seq_len", "model_name"]
    ),
    *(
        (ROOT, word, 1)
        for word in ["cuda_visible_devices", "pipeline_parallel_size", "local_rank", "fp8", "fp32"]
    ),
    *((ROOT, word, "x") for word in ["output_dir", "run_name", "model", "tokenizer", "save_path"]),
    (ROOT, "sequence_parallel", {"size": 2}),  # an object is not meant for a number
    (ROOT, "tensor_parallel_size", 2),  # nor a number for an object
    (ZERO, "max_group_size", 1),
    (ZERO, "verbose", True),
    ("Fp16", "max_loss_scale", 1),
]


@pytest.mark.parametrize(("section", "word", "value", "meant"), MEANT)
def test_an_obvious_typo_has_a_suggestion(section: str, word: str, value: Json, meant: str) -> None:
    assert (
        sorted(guess_intended_key(word, value, section_view_of_release(section, RELEASE)).suggestions)
        == meant.split()
    )


@pytest.mark.parametrize(("section", "word", "value"), UNKNOWN)
def test_an_unrelated_key_has_no_suggestion(section: str, word: str, value: Json) -> None:
    assert guess_intended_key(word, value, section_view_of_release(section, RELEASE)).suggestions == ()


def test_each_edit_of_each_key_is_recognized() -> None:
    """Of one letter left out, doubled, exchanged with the next or wrong, in words of six letters and more."""
    for section in (ROOT, ZERO, "Fp16", "OffloadOptimizer"):
        words = index_words(section_view_of_release(section, RELEASE).keys)
        for word in section_view_of_release(section, RELEASE).keys:
            for slip in _slips(word) if len(word) > 5 else ():
                found = similar_words(slip, words)
                best = [each.word for each in found if each.cost == found[0].cost]
                assert word in best, (slip, found)


def _slips(word: str) -> list[str]:
    at = [index for index in range(1, len(word)) if word[index - 1] != "_" != word[index]]
    return [
        *(word[:i] + word[i + 1 :] for i in at),
        *(word[:i] + word[i] + word[i:] for i in at),
        *(word[: i - 1] + word[i] + word[i - 1] + word[i + 1 :] for i in at),
    ]


def test_distance_agrees_with_the_textbook() -> None:
    spread = random.Random(1)
    for _ in range(3000):
        one, other = ("".join(spread.choices("abc", k=spread.randrange(8))) for _ in "12")
        for most in range(4):
            assert min(edit_distance(one, other, most), most + 1) == min(_textbook(one, other), most + 1)


def _textbook(one: str, other: str) -> int:
    """Optimal string alignment without any short cut."""
    rows = [list(range(len(other) + 1))]
    for i, letter in enumerate(one, 1):
        rows.append([i])
        for j, wanted in enumerate(other, 1):
            cost = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                cost = min(cost, rows[i - 2][j - 2] + 1)
            rows[i].append(cost)
    return rows[-1][-1]


@pytest.mark.parametrize("word", ["", "_", "@@@", "é" * 50, "a" * 100_000, "a_" * 5_000, "1"])
def test_any_word_is_accepted(word: str) -> None:
    start = time.process_time()
    assert similar_words(word, index_words(section_view_of_release(ROOT, RELEASE).keys)) == []
    assert time.process_time() - start < 0.1
