"""The memory of a GPU: an amount, a card, or the size by which cards are sold; what is chosen by it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dsconfig import memory
from dsconfig.core.gpu_memory import CARDS, memory_of_card, parse_gpu_memory
from tests.cli.conftest import Runs
from tests.cli.estimates import config_of, estimate

GIB = 1 << 30
CONFIG = config_of(2, offload_optimizer={"device": "cpu"})
RUN = ("memory", "ds.json", "--model", "Qwen/Qwen2.5-14B", "--world-size", "8", "--checkpointing")
RUN = (*RUN, "--sequence-length", "2048")

pytestmark = pytest.mark.usefixtures("ds_json")


@pytest.mark.parametrize(
    ("text", "card"),
    [
        ("h100", "h100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("a100-40", "a100-40"),
        ("NVIDIA A100-SXM4-40GB", "a100-40"),
        ("A100 80GB", "a100-80"),
        ("rtx4090", "4090"),
        ("RTX 3090 Ti", "3090"),
        ("RTX_A6000", "a6000"),
        ("NVIDIA RTX 6000 Ada Generation", "6000-ada"),
        ("L40S", "l40s"),
    ],
)
def test_a_card_is_known_by_its_name_however_it_is_written(text: str, card: str) -> None:
    assert parse_gpu_memory(text)[:2] == (memory_of_card(card), memory_of_card(card))


@pytest.mark.parametrize(("sold", "least", "most"), [(24, 22, 24), (40, 39, 40), (48, 44, 48), (80, 79, 80)])
def test_a_size_is_that_of_the_cards_that_are_sold_by_it(sold: int, least: int, most: int) -> None:
    parsed = parse_gpu_memory(f"{sold}GB")
    assert least * GIB <= parsed.least <= parsed.most <= most * GIB
    assert tuple(name for name, _ in parsed.cards) == tuple(
        name for name, card in CARDS.items() if sold in card.sold
    )
    assert 139 * GIB <= parse_gpu_memory("141 gb").least <= 141 * GIB


@pytest.mark.parametrize(
    ("text", "count"),
    [("80e9", 80 * 10**9), ("74.5GiB", 149 * GIB // 2), ("80GiB", 80 * GIB), ("79GB", 79 * 10**9), (5, 5)],
)
def test_all_other_amounts_are_exact(text: str | int, count: int) -> None:
    assert parse_gpu_memory(text)[:2] == (count, count)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a100", "`a100` is sold in several sizes: a100-40 or a100-80"),
        ("h101", "got `h101`, or a card such as h100 or a100-80"),
    ],
)
def test_a_name_of_no_card_is_refused(run: Runs, text: str, message: str) -> None:
    code, out, err = run(*RUN, "--gpu", text)
    assert (code, out) == (2, "")
    assert message in err


def test_where_cards_of_one_size_differ_the_card_is_asked_for(run: Runs) -> None:
    size = ("--micro-batch", "3", "--sequence-length", "1024", "--target", "0.19.8")
    needed = max(estimate(run, *RUN, "--gpu", "a6000", *size, codes=(0, 2))["rank"]["bound"].values())
    free = str(46 * GIB - needed)
    for name, code, word in (("a6000", 0, "Fits"), ("l40s", 1, "Does NOT fit"), ("48GB", 2, "Unknown")):
        found = run(*RUN, *size, "--gpu", name, "--margin", free)
        assert (found.code, found.out.startswith(f"{word}: needs ")) == (code, True)
    assert (
        "a6000 and 6000-ada would be large enough, a40 and l40 and l40s would not: name the card" in found.out
    )
    limits = estimate(run, *RUN, *size, "--gpu", "48GB", "--margin", free, codes=(2,))["limits"]
    assert (limits["gpu"], limits["gpu_name"]) == (memory_of_card("l40s"), "48GB")
    assert (limits["gpu_fits"], limits["gpu_verdict"]) == (None, "unknown")


def load(result: dict[str, Any]) -> tuple[int, int]:
    return result["rank"]["peak"]["load"], result["host"]["peak"]["load"]


def test_weights_are_flattened_on_the_host_where_the_gpu_lacks_room(run: Runs) -> None:
    """From 0.19.0 on: `flatten_on_accelerator` of stage_1_and_2.py asks for the memory that is available."""
    target = ("--target", "0.19.8")
    unknown, small, large = (
        estimate(run, *RUN, *target, *size) for size in ((), ("--gpu", "48GiB"), ("--gpu", "80GiB"))
    )
    weights = 2 * unknown["parameters"]
    assert load(unknown) == load(large)
    assert 2 * weights <= load(large)[0] < 2.2 * weights
    assert weights <= load(small)[0] < 1.2 * weights
    assert [each["key"] for each in small["findings"]] == ["zero_optimization.stage"]
    assert "pass `--gpu` to see which applies" in unknown["findings"][0]["text"]
    assert run(*RUN, *target, "--gpu", "48GiB").code == 0
    assert run(*RUN, *target, "--fit", "48GiB").out.startswith("fits 48.00 GiB without changes")
    sizes = ((), ("--gpu", "48GiB"))
    before = [estimate(run, *RUN, "--target", "0.18.9", *size, codes=(0, 2)) for size in sizes]
    assert load(before[0]) == load(before[1])
    result = memory(
        CONFIG,
        model="Qwen/Qwen2.5-14B",
        world_size=8,
        target="0.19.8",
        checkpointing=True,
        gpu="48GiB",
        sequence_length=2048,
    )
    assert json.loads(json.dumps(result.to_dict()))["rank"] == small["rank"]


def test_what_is_flattened_on_the_host_lies_there_twice(run: Runs) -> None:
    """Each process has the weights and their flat copy on the host, beside nothing else of the model."""
    words = ("--set", "bf16.enabled=false", "--target", "0.19.8")
    (small,) = (estimate(run, *RUN, *words, "--gpu", size, codes=(0, 1)) for size in ("70GiB",))
    flat = next(term for term in small["host"]["terms"] if term["name"] == "flattened bucket copy")
    assert flat["phases"]["load"] >= 8 * 2 * 4 * small["parameters"]
