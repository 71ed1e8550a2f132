"""The site's scripts compute what Python computes: run in node, on random input."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pages import changes, places, releases

import elastic
from dsconfig.releases import RELEASES
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


def test_pairs_of_releases_differ_as_the_table_says(tmp_path: Path) -> None:
    random = Random(7)
    pairs = [sorted(random.sample(range(len(RELEASES)), 2)) for _ in range(20)]
    asked = {"data": json.loads(releases.data()), "pairs": pairs}
    line = "asked.pairs.map(([a, b]) => script.differences(asked.data, a, b))"
    for (old, new), told in zip(pairs, node(line, "compare.js", asked, tmp_path), strict=True):
        wanted = [[path, said] for path in places.entries() for said in changes.between(path, old, new)]
        assert told == wanted, (RELEASES[old], RELEASES[new])


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
