"""The site's scripts compute what Python computes: run in node, on random input."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pages import key_entries, key_history, releases

import dsconfig
import elastic
from dsconfig.cli import main
from dsconfig.core.gpu_memory import CARDS
from dsconfig.core.releases import RELEASES
from dsconfig.memory.models.model_zoo import NAMES
from tests.site.conftest import ROOT

ASSETS = ROOT / "site" / "docs" / "assets"


def node(script: str, name: str, questions: object, tmp_path: Path) -> Any:
    """What a line of JavaScript makes of each question, `script` being the exports of a file."""
    file = tmp_path / "questions.json"
    file.write_text(json.dumps(questions), encoding="utf-8")
    told = (
        f"const script = require({json.dumps(str(ASSETS / name))});"
        f"const asked = JSON.parse(require('fs').readFileSync({json.dumps(str(file))}, 'utf8'));"
        f"console.log(JSON.stringify({script}))"
    )
    done = subprocess.run(["node", "-e", told], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def planned(question: dict[str, Any]) -> dict[str, Any]:
    block = {
        "enabled": True,
        "max_train_batch_size": question["cap"],
        "micro_batch_sizes": question["micros"],
        "max_gpus": question["most"],
        "version": 0.1,
    }
    plan = elastic.plan({"elasticity": block})
    rows = [
        {"size": r.world_size, "micro": r.micro_batch_size, "steps": r.accumulation_steps} for r in plan.rows
    ]
    return {"batch": plan.batch_size, "rows": rows}


def test_the_batch_planner_plans_as_elastic_does(tmp_path: Path) -> None:
    random = Random(7)
    questions = [{"cap": 2000, "micros": [2, 4, 6], "most": 64}]
    for _ in range(120):
        cap = random.choice([random.randint(1, 60), random.randint(50, 5000), random.randint(1, 100_000)])
        micros = sorted({random.randint(1, min(cap, 40)) for _ in range(random.randint(1, 4))})
        questions.append({"cap": cap, "micros": micros, "most": random.randint(1, 600)})
    answers = node("asked.map(script.plan)", "batch.js", questions, tmp_path)
    for question, answer in zip(questions, answers, strict=True):
        assert answer == planned(question), question


def test_the_batch_planner_says_how_many_of_the_available_gpus_train(tmp_path: Path) -> None:
    question = {"cap": 2000, "micros": [2, 4, 6], "most": 64}
    chosen = planned(question)
    line = "asked.map(([question, available]) => script.readout(script.plan(question), available))"
    told = node(line, "batch.js", [[question, number] for number in range(1, 65)], tmp_path)
    sizes = [row["size"] for row in chosen["rows"]]
    for available, words in enumerate(told, 1):
        size = max(each for each in sizes if each <= available)
        idle = f"{size} train, {available - size} idle" if size < available else "all train"
        assert f"{available} GPU" in words
        assert idle in words, available
        micro, steps = (int(each) for each in re.findall(r"micro batch (\d+) × (\d+)", words)[0])
        assert micro * steps * size == chosen["batch"]
    (few,) = node("asked.map((q) => script.readout(q, 3))", "batch.js", [{"batch": 8, "rows": []}], tmp_path)
    assert few == "3 GPUs: no admissible world size"


def test_the_batch_planner_copies_a_command_that_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = node("asked.map(script.command)", "batch.js", [{"nodes": 8, "perNode": 4}], tmp_path)
    block = {"enabled": True, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4, 6], "version": 0.1}
    (tmp_path / "ds_config.json").write_text(json.dumps({"elasticity": block}), "utf-8")
    words = [str(tmp_path / each) if each == "ds_config.json" else each for each in shlex.split(line)]
    assert words[0] == "dsconfig"
    assert main(words[1:]) == 0
    assert "1680 samples per step" in capsys.readouterr().out


def test_pairs_of_releases_differ_as_the_table_says(tmp_path: Path) -> None:
    random = Random(7)
    pairs = [sorted(random.sample(range(len(RELEASES)), 2)) for _ in range(20)]
    asked = {"data": json.loads(releases.data()), "pairs": pairs}
    line = "asked.pairs.map(([a, b]) => script.differences(asked.data, a, b))"
    for (old, new), told in zip(pairs, node(line, "compare.js", asked, tmp_path), strict=True):
        wanted = [
            [path, said] for path in key_entries.entries() for said in key_history.changes(path, old, new)
        ]
        assert told == wanted, (RELEASES[old], RELEASES[new])


def forms() -> list[dict[str, Any]]:
    """The memory planner's form, filled at random."""
    random = Random(7)
    made = []
    for _ in range(28):
        numbers = {name: random.randint(1, 16) for name in ("gpus", "each", "micro", "steps")}
        ticks = {name: random.random() < 0.5 for name in ("checkpointing", "sharded", "gathered")}
        words = {
            "model": random.choice(["llama-3-8b", "gpt2", "llama-3.2-1b", "qwen3-0.6b"]),
            "offload": random.choice(["none", "optimizer", "both"]),
            "precision": random.choice(["bf16", "fp16", "fp32"]),
        }
        sizes = {
            "stage": random.randint(0, 3),
            "sequence": random.choice([512, 1024]),
            "memory": random.choice([4, 24, 80]),
        }
        made.append(numbers | ticks | words | sizes)
    return made


def test_the_memory_planner_offers_the_models_that_are_known(tmp_path: Path) -> None:
    assert set(node("script.MODELS", "memory.js", [], tmp_path)) == set(NAMES)


def test_the_memory_planner_offers_cards_that_are_known(tmp_path: Path) -> None:
    cards = node("script.CARDS", "memory.js", [], tmp_path)
    for name, label in cards.items():
        assert any(f"{size} GB" in label for size in CARDS[name].sold), label


def test_the_memory_planner_copies_the_command_that_it_ran(tmp_path: Path) -> None:
    states = [state | {"card": "h100"} for state in forms()] + [
        forms()[0] | {"card": "h100", "model": "pasted"}
    ]
    answers = node("asked.map((s) => [script.command(s), script.typed(s)])", "memory.js", states, tmp_path)
    for ran, typed in answers:
        words = [each.rpartition("/")[2] for each in ran if each not in {"--output-format", "json"}]
        assert shlex.split(typed) == ["dsconfig", *words, "--gpu", "h100"]


def test_the_memory_planner_states_the_verdict_first(tmp_path: Path) -> None:
    gib = 1 << 30
    expected = {"low": 70 * gib, "high": 90 * gib, "cached_at_least": 2 * gib}
    limits = {"gpu": 80 * gib, "gpu_verdict": "tight", "gpu_reason": "fragmentation decides"}
    (line,) = node(
        "asked.map(script.verdict)", "memory.js", [{"expected": expected, "limits": limits}], tmp_path
    )
    range_ = "70.0 to 80.0 GiB expected in nvidia-smi; the GPU has 80.0 GiB"
    assert line == f"It is tight: {range_}. Fragmentation decides."


def test_the_memory_planner_asks_what_the_command_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    states = forms()
    made = node("asked.map((s) => [script.config(s), script.command(s)])", "memory.js", states, tmp_path)
    fits, wanted, ranks = [], [], []
    for state, (config, arguments) in zip(states, made, strict=True):
        assert dsconfig.check(config, target=RELEASES[-1]).ok, config
        file, out = tmp_path / "ds_config.json", tmp_path / "fits.json"
        file.write_text(json.dumps(config), encoding="utf-8")
        out.unlink(missing_ok=True)
        asked = [str(file) if each.endswith("ds_config.json") else each for each in arguments]
        assert main([*asked, "--gpu", f"{state['memory']}GiB"]) in (0, 1, 2)
        found = json.loads(capsys.readouterr().out)
        assert {"at_rest", "peak", "bound", "terms"} <= found["rank"].keys()
        assert {"gpu", "margin", "gpu_fits"} <= found["limits"].keys()
        ranks.append(found["rank"])
        main([*asked, "--fit", f"{state['memory']}GiB", "-o", str(out)])
        fit = json.loads(capsys.readouterr().out)["fit"]
        assert fit["fits"] == out.exists()
        if fit["fits"]:
            fits.append([config, fit, state["memory"]])
            wanted.append(json.loads(out.read_text("utf-8")))
    shown = node(
        "asked.map((rank) => script.phases(rank).map(([phase]) => phase))", "memory.js", ranks, tmp_path
    )
    assert shown == [["at_rest", *rank["peak"]] for rank in ranks]
    assert any("save" in rank["peak"] for rank in ranks)
    assert len(fits) > len(states) / 2
    line = (
        "asked.map(([config, fit, size]) => [script.applied(config, fit.changes), script.advice(fit, size)])"
    )
    for answer, (_, fit, _), config in zip(
        node(line, "memory.js", fits, tmp_path), fits, wanted, strict=True
    ):
        assert answer[0] == config
        assert len(answer[1]) == len(fit["changes"]) + 1


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        ("fp16", "fp16^10 fp16"),
        ("aio.block", "title:aio^300 aio block^10 block block~1"),
        (
            "train_batch_size is not equal to micro_batch_per_gpu * 4 != 32",
            "text:train_batch_size^1 text:not^1 text:equal^1 text:micro_batch_per_gpu^1",
        ),
    ],
)
def test_what_is_typed_is_made_a_query(typed: str, asked: str, tmp_path: Path) -> None:
    assert node("asked.map(script.query)", "search.js", [typed], tmp_path) == [asked]
