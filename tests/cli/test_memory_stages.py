"""`dsconfig memory --model X` without a config, and models whose layers are not supported."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dsconfig.memory.models.architecture import MicroBatch
from dsconfig.memory.models.fallback_architecture import architecture_of_count, parameter_only_architecture
from dsconfig.memory.models.model_zoo import CONFIGS, preset
from dsconfig.memory.models.record_pass_by_family import record_forward_pass
from tests.cli.conftest import Runs
from tests.cli.estimates import config_of, estimate

NEW_TYPE = {
    "model_type": "brand_new",
    "architectures": ["BrandNewForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "rms_norm_eps": 1e-5,
}


def numel(arch: Any) -> int:
    return sum(weight.numel for weight in record_forward_pass(arch, MicroBatch(1, 16, 2)).weights)


def test_all_stages_are_listed_with_what_fits(run: Runs) -> None:
    code, out, _ = run("memory", "--model", "llama-3-8b", "--gpu", "a100-40", "--sequence-length", "4096")
    lines = out.splitlines()
    assert (code, lines[0].startswith("Fits: ")) == (0, True)
    rows = {line[:31].strip(): line for line in lines if line[:1].isdigit() and line[1:2] == " "}
    assert [row.split()[0] for row in rows] == ["0", "1", "1", "2", "2", "3", "3", "3"]
    assert rows["0      -"].count("does not fit") == 2
    assert "fits" in rows["3      optimizer, parameters"]


def test_the_table_fits_a_terminal_of_80_columns(run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    arguments = (
        "memory",
        "--model",
        "llama-3-8b",
        "--gpu",
        "a100-40",
        "--sequence-length",
        "4096",
        "--color",
        "never",
    )

    def rows(columns: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        return [line for line in run(*arguments).out.splitlines() if line[:2] in ("0 ", "1 ", "2 ", "3 ")]

    wide, narrow = rows(101), rows(80)
    assert max(map(len, narrow)) <= 80
    assert (len(wide), len(narrow)) == (8, 16)
    ranges = [re.findall(r"[\d.]+ to [\d.]+", "\n".join(lines)) for lines in (wide, narrow)]
    assert ranges[0] == ranges[1]
    assert [row[29:44].strip() for row in narrow[:2]] == ["no", "yes"]


def test_an_assumed_number_of_gpus_is_named(run: Runs) -> None:
    arguments = ("memory", "--model", "gpt2", "--sequence-length", "1024")
    assert "assumed: 8 GPUs, those of one node; pass `--world-size`\n" in run(*arguments).out
    assert "assumed: 4 GPUs, those of one node" in run(*arguments, "--gpus-per-node", "4").out
    assert "GPUs, those of one node" not in run(*arguments, "--world-size", "8").out


def test_what_fits_only_as_assumed_is_listed_apart(run: Runs) -> None:
    code, out, _ = run("memory", "--model", "llama-3-8b", "--gpu", "a100-40")
    first, cells = out.splitlines()[0], out.count("fits, assumed")
    assert (code, first.startswith("Tight: 0 of 16 variants fit")) == (2, True)
    assert cells > 0
    assert first.endswith(f", {cells} more with what is assumed below")


def test_what_fits_nowhere_exits_with_1(run: Runs) -> None:
    code, out, _ = run("memory", "--model", "llama-3.1-405b", "--gpu", "t4", "--sequence-length", "4096")
    assert (code, out.startswith("Does NOT fit: 0 of 16")) == (1, True)


def test_the_table_as_json(run: Runs) -> None:
    code, out, _ = run("memory", "--params", "7B", "--world-size", "4", "--output-format", "json")
    stages = json.loads(out)["stages"]
    assert (code, len(stages)) == (0, 8)
    lows = [row["variants"][0]["gpu"]["low"] for row in stages if not row["offload"]]
    assert lows == sorted(lows, reverse=True)


@pytest.mark.parametrize("option", ["--fit=80GiB", "--max=sequence", "--plot=x.svg"])
def test_searches_need_a_config(run: Runs, option: str) -> None:
    assert run("memory", "--model", "gpt2", "--gpu", "80GiB", option).code == 2


def test_an_unknown_type_has_states_at_every_stage(run: Runs, here: Path) -> None:
    config = {key: value for key, value in NEW_TYPE.items() if key != "vocab_size"}
    (here / "config.json").write_text(json.dumps(config))
    code, out, _ = run("memory", "--model", "config.json", "--gpu", "h100", "--world-size", "8")
    assert (code, out.startswith("Unknown: 0 of 8")) == (2, True)
    assert "6,979.3 million parameters" in out
    assert "the model type `brand_new` is not supported yet. Only model states are estimated" in out


def test_a_language_model_of_an_unknown_type_is_a_generic_transformer(run: Runs, here: Path) -> None:
    (here / "config.json").write_text(json.dumps(NEW_TYPE))
    (here / "ds.json").write_text(json.dumps(config_of(3)))
    options = ("--world-size", "8", "--sequence-length", "4096", "--no-checkpointing", "--zero-init")
    generic = estimate(run, "memory", "ds.json", "--model", "config.json", *options)
    llama = estimate(run, "memory", "ds.json", "--model", "llama-3-8b", *options)
    assert generic["rank"]["peak"]["backward"] == pytest.approx(llama["rank"]["peak"]["backward"], rel=0.01)
    assert any("generic transformer of its sizes, within 40 %" in line for line in generic["assumptions"])
    # The range allows for what the type does besides.
    assert generic["expected"]["low"] < 0.85 * llama["expected"]["low"]
    assert generic["expected"]["high"] > 1.1 * llama["expected"]["allocated"]


def test_the_count_can_be_given_for_any_name(run: Runs) -> None:
    code, _, err = run("memory", "--model", "maker/Name-14B-Chat")
    assert (code, "or `--params 14B` for model states" in err) == (2, True)
    code, out, _ = run("memory", "--model", "maker/Name-14B-Chat", "--params", "14B")
    assert (code, "14,000.0 million parameters" in out) == (0, True)


@pytest.mark.parametrize("count", [10, 100_000, 135_000_000, 7_000_000_000, 671_000_000_000])
def test_a_count_alone_is_met_exactly(count: int) -> None:
    assert numel(architecture_of_count(count)) == count


@pytest.mark.parametrize(
    "name", ["llama-3-8b", "qwen2.5-7b", "mistral-nemo", "qwen3-30b-a3b", "phi-4", "yi-34b", "llama-3.1-405b"]
)
def test_the_usual_keys_give_the_count_of_known_models(name: str) -> None:
    config = {"rms_norm_eps": 1e-6, **CONFIGS[name], "model_type": "brand_new"}
    arch = parameter_only_architecture(config)
    assert arch is not None
    assert numel(arch) == pytest.approx(numel(preset(name)), rel=0.02)


def test_nested_configs_are_added(run: Runs) -> None:
    vision = {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "intermediate_size": 4096,
        "num_attention_heads": 16,
    }
    both = parameter_only_architecture(
        {"model_type": "new_vl", "text_config": NEW_TYPE, "vision_config": vision}
    )
    alone = parameter_only_architecture(NEW_TYPE)
    assert both is not None
    assert alone is not None
    assert numel(both) - numel(alone) == pytest.approx(24 * 12 * 1024**2, rel=0.01)


def test_a_config_without_sizes_is_no_model(run: Runs, here: Path) -> None:
    (here / "config.json").write_text('{"model_type": "brand_new"}')
    code, _, err = run("memory", "--model", "config.json")
    assert (code, "pass `--params N` for model states" in err) == (2, True)
