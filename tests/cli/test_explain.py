"""`dsconfig explain`: rules by code and name, keys by path, and the nearest where neither is known."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from dsconfig.rules import RULES

from .conftest import Runs


@pytest.mark.parametrize("code", RULES)
def test_every_rule_has_a_page(run: Runs, code: str) -> None:
    rule = RULES[code]
    result = run("explain", code)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"{code} {rule.name}\n\n{rule.title}\n")
    assert f"Effect: {rule.effect.value}" in result.out
    assert result.out == run("explain", rule.name).out == run("explain", code.lower()).out


def test_the_start_of_a_code_lists_its_rules(run: Runs) -> None:
    out = run("explain", "DSC1").out
    assert out.splitlines()[0].startswith("DSC101 unknown-key: ")
    assert "DSC201" not in out


def test_color_marks_the_page(run: Runs) -> None:
    out = run("explain", "DSC101", "--color", "always").out
    assert "\x1b[1mDSC101 unknown-key\x1b[0m" in out
    assert "\x1b[1mBad:\x1b[0m" in out


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> None:
    descriptions = {
        "zero_optimization.stage": "How much is **partitioned**:\n\n```json\n{}\n```\n",
        "quant.bits": "Bits of a weight.\n",
    }
    paths = [("zero_optimization", "stage"), ("a", "enabled"), ("b", "enabled")]
    monkeypatch.setattr("dsconfig.model.key_description.key_page", descriptions.get)
    below = {"Config": paths, "InferenceConfig": [("zero", "stage"), ("quant", "bits")]}
    monkeypatch.setattr(
        "dsconfig.model.key_table.iter_keys", lambda root: ((path, None) for path in below[root])
    )


@pytest.mark.usefixtures("described")
class TestKeys:
    def test_by_path(self, run: Runs) -> None:
        assert run("explain", "zero_optimization.stage").out == "How much is partitioned:\n\n    {}\n"

    def test_by_the_last_part_where_only_one_key_has_it(self, run: Runs) -> None:
        assert run("explain", "stage").out == "How much is partitioned:\n\n    {}\n"

    def test_a_key_of_inference_configs_only(self, run: Runs) -> None:
        assert run("explain", "bits").out == "Bits of a weight.\n"

    def test_a_name_of_several_keys(self, run: Runs) -> None:
        result = run("explain", "enabled")
        assert result.code == 2
        assert "matches several keys: `a.enabled` or `b.enabled`" in result.err

    def test_an_unknown_key_gets_the_nearest(self, run: Runs) -> None:
        result = run("explain", "zero_optimisation.stag")
        assert result.code == 2
        assert "did you mean `zero_optimization.stage`" in result.err


@pytest.mark.parametrize("what", ["fp16", "zero_optimization.stage", "optimizer.params.betas", "DSC401"])
def test_nothing_is_asked_of_pydantic(what: str) -> None:
    program = "import sys; sys.modules['pydantic'] = None; from dsconfig.cli import main; main(sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", program, "explain", what], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_whose_scheduler_is_used_is_said_for_every_release(run: Runs) -> None:
    """`DeepSpeedEngine._configure_lr_scheduler` asked the config first, and asks the script since 0.14.5."""
    text = " ".join(run("explain", "scheduler").out.split())
    assert "From 0.14.5 on, a scheduler passed by the script replaces it" in text
    assert "up to 0.14.4, the script's scheduler is used only if this section has no `type`" in text


def test_explains_an_advisory(run: Runs) -> None:
    result = run("explain", "offload-drops-micro-batches")
    assert (result.code, result.err) == (0, "")
    assert "Affected: DeepSpeed 0.15.2 to 0.18.9" in result.out
    assert "Settings: ZeRO stage: `1` or `2`" in result.out
    assert "did you mean `hpz-stale-after-load`" in run("explain", "hpz-stale-after-loading").err


def test_lists_the_advisories_of_rules(run: Runs) -> None:
    lines = run("rules", "--advisories", "DSC883").out.splitlines()
    assert lines[0].startswith("import-on-torch-2.0  crashes")
    records = json.loads(run("rules", "--advisories", "--output-format", "json").out)["advisories"]
    row = next(each for each in records if each["id"] == "import-on-torch-2.4")
    assert (row["rule"], row["affected"]) == ("DSC883", "DeepSpeed 0.7.0 to 0.14.3, torch >=2.4")
