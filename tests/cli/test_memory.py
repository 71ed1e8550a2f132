"""`dsconfig memory`: the table, JSON and CSV of it, what fits, and what is refused."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dsconfig
from tests.cli.conftest import Runs
from tests.cli.estimates import config_of, estimate

pytestmark = pytest.mark.usefixtures("ds_json")
CONFIG = config_of(2)
RUN = (
    *("memory", "ds.json", "--model", "llama-2-7b", "--world-size", "8", "--target", "0.19.8"),
    *("--sequence-length", "2048", "--no-checkpointing"),
)
GIB = 1 << 30


def estimated(run: Runs, *argv: str) -> dict[str, Any]:
    return estimate(run, *RUN, *argv, codes=(0, 1))


def test_every_line_names_its_key_and_its_formula(run: Runs) -> None:
    result = estimated(run)
    for side in ("rank", "host"):
        for term in result[side]["terms"]:
            assert term["key"]
            assert term["formula"]
            assert term["bytes"] == max(term["phases"].values())
    assert set(result) >= {"rank", "host", "communication", "assumptions"}


@pytest.mark.parametrize("phase", ["load", "forward", "backward", "step"])
def test_terms_add_up_to_the_peak_of_each_phase(run: Runs, phase: str) -> None:
    rank = estimated(run)["rank"]
    assert sum(term["phases"].get(phase, 0) for term in rank["terms"]) == rank["peak"][phase]
    assert sum(term["phases"].get("at_rest", 0) for term in rank["terms"]) == rank["at_rest"]
    assert rank["bound"][phase] > rank["peak"][phase]


def test_stage_2_at_rest_is_the_weights_and_a_share_of_twelve_bytes(run: Runs) -> None:
    result = estimated(run)
    count = result["parameters"]
    assert result["rank"]["at_rest"] == pytest.approx(2 * count + 12 * count / 8, rel=1e-6)


def test_the_verb_and_the_function_say_the_same(run: Runs, here: Path) -> None:
    options: dict[str, Any] = {"world_size": 8, "target": "0.19.8", "sequence_length": 2048}
    result = dsconfig.memory(here / "ds.json", model="llama-2-7b", **options).to_dict()
    other_result = estimated(run)
    other_result.pop("limits")
    assert other_result == result


def test_a_sheet_holds_the_same_numbers(run: Runs) -> None:
    result = estimated(run)
    rows = list(csv.DictReader(io.StringIO(run(*RUN, "--output-format", "csv").out)))
    together = {
        row["phase"]: int(row["bytes"]) for row in rows if row["memory"] == "rank" and row["term"] == "total"
    }
    assert together == {"at_rest": result["rank"]["at_rest"], **result["rank"]["peak"]}


def test_what_does_not_fit_ends_in_exit_code_1(run: Runs) -> None:
    bound = max(estimated(run)["rank"]["bound"].values())
    fits, lacks = (f"{bound + GIB + extra}B" for extra in (0, -1))
    assert run(*RUN, "--gpu", fits, "--margin", "1GiB").code == 0
    code, out, _ = run(*RUN, "--gpu", lacks, "--margin", "1GiB")
    assert code == 1
    assert "Does NOT fit: needs " in out
    assert run(*RUN, "--gpu", lacks, "--margin", "1MiB").code == 0
    assert run(*RUN, "--gpu", f"{bound * 3 // 4}B").code == 1
    offloaded = ("--set", 'zero_optimization.offload_optimizer={"device": "cpu"}')
    assert run(*RUN, *offloaded, "--host", "10GiB").code == 1


def test_a_model_by_its_sizes_and_by_its_config(run: Runs, here: Path) -> None:
    command = ("memory", "ds.json", "--world-size", "8", "--target", "0.19.8")
    assert run(*command, "--params", "7e9", "--hidden", "4096", "--layers", "32").code == 0
    (here / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    assert "124.4 million parameters" in run(*command, "--model", ".").out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((), "no model; give `--model`: its config.json, or a name such as llama-3-8b"),
        (
            ("--model", "gpt2", "--layers", "7"),
            "--model and --hidden, --layers, --heads or --vocabulary exclude each other",
        ),
        (("--params", "7e9", "--hidden", "64"), "--hidden and --layers require each other and --params"),
        (
            ("--model", "gpt3"),
            "unknown model `gpt3`: no such file or preset; did you mean gpt2? If not, pass",
        ),
        (("--model", "gpt2", "--target", "0.13.5"), "0.13.5 is not supported; use 0.14.0 or later"),
        (("--model", "gpt2", "--nodes", "2"), "--nodes requires --gpus-per-node"),
        (("--model", "gpt2", "--gpu", "lots"), "expected an amount such as 80GiB, got `lots`"),
        (("--model", "gpt2", "--optimizer", "magic"), "the optimizer `magic` is not supported yet"),
        (
            ("--model", "gpt2", "--set", "zero_optimization.zero_quantized_nontrainable_weights=true"),
            "`zero_optimization.zero_quantized_nontrainable_weights` is not supported yet",
        ),
    ],
)
def test_what_cannot_be_computed_is_refused_by_name(run: Runs, argv: tuple[str, ...], message: str) -> None:
    more = () if "--nodes" in argv else ("--world-size", "8")
    code, out, err = run("memory", "ds.json", "--target", "0.19.8", *more, *argv)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 1 or "usage" in err


def test_a_config_that_deepspeed_refuses_has_no_memory(run: Runs, here: Path) -> None:
    (here / "ds.json").write_text('{"zero_optimization": {"stage": 9}, "train_batch_size": 8}')
    code, out, err = run(*RUN)
    assert (code, out) == (1, "")
    assert "error" in err


def test_checking_loads_nothing_of_it(here: Path) -> None:
    program = "import sys; from dsconfig.cli import main; main(['check', 'ds.json']); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=here
    )
    assert not [name for name in done.stdout.split() if name.startswith("dsconfig.memory")]


def test_no_torch_and_no_pydantic_for_an_estimate(here: Path) -> None:
    program = f"import sys; from dsconfig.cli import main; main({list(RUN)!r}); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=here
    )
    assert not {"torch", "pydantic", "numpy"} & set(done.stdout.split())


def test_the_largest_model_is_told_by_its_layers(run: Runs) -> None:
    assert "layers fits 80.00 GiB" in run(*RUN, "--gpu", "80GiB", "--max", "model").out
    assert run(*RUN, "--gpu", "2GiB", "--max", "model").code == 1
    assert run(*RUN, "--max", "model").code == 2


def test_adapters_take_the_place_of_states_and_gradients(run: Runs) -> None:
    whole, adapted = estimated(run), estimated(run, "--lora", "r=16,target=q_proj,v_proj")
    assert adapted["trained"] == 32 * 2 * 2 * 16 * 4096
    assert adapted["parameters"] == whole["parameters"] + adapted["trained"]
    count = adapted["trained"]
    assert adapted["rank"]["at_rest"] == pytest.approx(2 * adapted["parameters"] + 12 * count / 8, rel=1e-6)


def test_modules_saved_next_to_adapters_are_trained_whole(run: Runs) -> None:
    """A copy of the embeddings and one of the head have master weights and states, and the originals stay."""
    adapted, saving = (
        estimated(run, "--lora", f"r=16,target=q_proj,v_proj{more}")
        for more in ("", ",save=embed_tokens+lm_head")
    )
    copies = saving["trained"] - adapted["trained"]
    assert copies == saving["parameters"] - adapted["parameters"] == 2 * 32_000 * 4096
    difference = saving["rank"]["at_rest"] - adapted["rank"]["at_rest"]
    assert difference == pytest.approx(2 * copies + 12 * copies / 8, rel=1e-6)


@pytest.mark.parametrize(
    ("lora", "message"),
    [
        ("r=0", "lora: r is `0`; expected an integer above 0"),
        ("16", "lora: `16`; expected r=RANK, target=NAME,NAME… or all, dropout=FRACTION, save="),
        (
            "r=8,save=norm",
            "lora: save is `['norm']`; expected some of embed_tokens, lm_head, projector, vision_tower",
        ),
        ("r=8,target=query", "no linear layer is called query; use some of q_proj"),
        ("r=8,dropout=2", "lora: dropout is `2`; expected a fraction below 1"),
    ],
)
def test_adapters_that_cannot_be_are_refused(run: Runs, lora: str, message: str) -> None:
    code, _, err = run(*RUN, "--lora", lora)
    assert code == 2
    assert message in err


def test_rank_0_of_stage_3_puts_the_model_together_on_its_host(run: Runs) -> None:
    key = "zero_optimization.stage3_gather_16bit_weights_on_model_save"
    third = ("--set", "zero_optimization.stage=3")
    saved = estimated(run, *third, "--set", f"{key}=true")
    assert saved["host"]["peak"]["save"] == 2 * saved["parameters"], "once, however many ranks share the host"
    assert [term["name"] for term in saved["host"]["terms"] if term["key"] == key] == ["consolidated weights"]
    assert saved["rank"]["peak"]["save"] < saved["rank"]["peak"]["backward"]
    assert "save" not in estimated(run, *third)["rank"]["peak"]


LAUNCH = """\
stage: sft
model_name_or_path: models/own
finetuning_type: lora
lora_rank: 4
lora_target: q_proj,v_proj
cutoff_len: 512
per_device_train_batch_size: 2
learning_rate: 1.0e-4
bf16: true
deepspeed: ds.json
"""
LLAMA = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
LLAMA |= {"intermediate_size": 128, "vocab_size": 100}


def test_a_launch_file_says_the_model_and_the_run(run: Runs, here: Path) -> None:
    (here / "models" / "own").mkdir(parents=True)
    (here / "models" / "own" / "config.json").write_text(json.dumps(LLAMA))
    (here / "train.yaml").write_text(LAUNCH)
    (here / "ds.json").write_text(json.dumps({**CONFIG, "train_micro_batch_size_per_gpu": "auto"}))
    argv = ("memory", "train.yaml", "--world-size", "8", "--output-format", "json")
    result = json.loads(run(*argv).out)
    assert result["trained"] == 2 * 2 * 4 * (64 + 64)
    assert "the micro batch is 2 × 512 tokens, attention is `sdpa`" in result["assumptions"]
    assert "activations are checkpointed per layer" in result["assumptions"]
    (here / "train.yaml").write_text(LAUNCH.replace("own", "else"))
    assert "unknown model `models/else`" in run(*argv).err


def test_a_picture_has_a_bar_for_each_phase(run: Runs, here: Path) -> None:
    assert run(*RUN, "--plot", "bars.gif").code == 2
    if importlib.util.find_spec("matplotlib") is None:
        assert "--plot needs matplotlib" in run(*RUN, "--plot", "bars.svg").err
        return
    saves = '--set=zero_optimization={"stage": 3, "stage3_gather_16bit_weights_on_model_save": true}'
    assert run(*RUN, saves, "--plot", "bars.svg", "--gpu", "200GiB").code == 0
    drawn = (here / "bars.svg").read_text()
    assert all(word in drawn for word in ("at rest", "backward", ">save<", "activations", "the GPU"))


@pytest.mark.parametrize(
    ("model", "values", "key"),
    [
        ("gpt2", ("zero_optimization.stage=2",), "zero_optimization.reduce_bucket_size"),
        ("gpt2", ("zero_optimization.stage=3",), "zero_optimization.stage3_max_reuse_distance"),
        (
            "mixtral-8x7b",
            ("zero_optimization.stage=3", "zero_optimization.leaf_module.classes=[]"),
            "zero_optimization.leaf_module.classes",
        ),
        (
            "llama-2-7b",
            (
                "zero_optimization.stage=3",
                'zero_optimization.offload_optimizer={"device": "cpu", "ratio": 0.5}',
            ),
            "zero_optimization.offload_optimizer.ratio",
        ),
    ],
)
def test_what_is_done_to_no_purpose_is_told(run: Runs, model: str, values: tuple[str, ...], key: str) -> None:
    options = [word for value in values for word in ("--set", value)]
    argv = ("memory", "ds.json", "--model", model, "--world-size", "8", "--target", "0.19.8", *options)
    assert f"note: `{key}`: " in run(*argv).out
    assert key in [
        diagnostic["key"] for diagnostic in json.loads(run(*argv, "--output-format", "json").out)["findings"]
    ]


def leaves(run: Runs, target: str, *values: str) -> tuple[str, str]:
    """Notes on the experts of a Mixtral at stage 3, and the cases that are rejected."""
    options = [word for value in ("stage=3", *values) for word in ("--set", f"zero_optimization.{value}")]
    argv = ("memory", "ds.json", "--model", "mixtral-8x7b", "--world-size", "8", "--target", target, *options)
    _, out, err = run(*argv)
    return "".join(line for line in out.splitlines() if "a leaf" in line), err


@pytest.mark.parametrize("target", ["0.14.5", "0.17.6"])
def test_before_0_18_the_script_alone_makes_leaves(run: Runs, target: str) -> None:
    notes, _ = leaves(run, target)
    assert "`deepspeed.utils.set_z3_leaf_modules(model, [MixtralSparseMoeBlock])` in the script" in notes
    assert "leaf_module." not in notes, "a key that this release does not know"


@pytest.mark.parametrize(
    ("classes", "is_told"),
    [
        ('["MixtralSparseMoeBlock"]', False),
        ('["transformers.models.mixtral.modeling_mixtral.MixtralSparseMoeBlock"]', False),
        ('["mixtral.MixtralSparseMoeBlock"]', True),
        ('["LlamaMLP"]', True),
    ],
)
def test_a_leaf_is_named_by_its_class_or_by_all_of_its_path(run: Runs, classes: str, is_told: bool) -> None:
    assert bool(leaves(run, "0.19.8", f"leaf_module.classes={classes}")[0]) is is_told
    assert leaves(run, "0.18.9")[0] == "", "it is one by default"


@pytest.mark.parametrize("key", ["names", "name_suffixes"])
def test_leaves_by_names_of_modules_are_refused(run: Runs, key: str) -> None:
    value = f'leaf_module.{key}=["mlp"]'
    assert f"`zero_optimization.leaf_module.{key}` is not supported yet" in leaves(run, "0.19.8", value)[1]


def test_a_config_that_wastes_nothing_has_no_notes(run: Runs) -> None:
    assert "note:" not in run(*RUN).out
