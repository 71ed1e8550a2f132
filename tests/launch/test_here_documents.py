"""Configs that a script writes as a here-document with variables: unknown values, and locations in the script."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsconfig import check
from dsconfig.document.located_tree import UNKNOWN
from dsconfig.launch.embedded_text_offsets import read_with_variables

SCRIPT = """\
#!/bin/bash
GLOBAL_BATCH=32
MICRO_BATCH=4
cat <<EOT > ds.json
{
  "train_batch_size" : $GLOBAL_BATCH, "train_micro_batch_size_per_gpu": ${MICRO_BATCH},
  "zero_optimization": {
    "stage": STAGE,
    "overlap_com": true
  },
  "gradient_cliping": 1.0
}
EOT
deepspeed --num_gpus 8 pretrain_gpt.py --deepspeed --deepspeed_config ds.json
"""


@pytest.mark.parametrize("stage", ["1", "$STAGE", "${STAGE:-3}", "$(cat stage)", "$((STAGE + 1))"])
def test_diagnostics_are_located_in_the_here_document(empty_repository: Path, stage: str) -> None:
    Path("run.sh").write_text(SCRIPT.replace("STAGE,", f"{stage},"))
    found = {
        each.dotted: (each.location.line, each.location.column)
        for each in check("run.sh", target="0.18.0")
        if each.location and each.code == "DSC102"
    }
    assert found == {"gradient_cliping": (11, 3), "zero_optimization.overlap_com": (9, 5)}


@pytest.mark.parametrize(("batch", "codes"), [("32", ["DSC203"]), ("$1", []), ("40", ["DSC203"]), ("64", [])])
def test_a_batch_of_the_caller_is_not_checked(empty_repository: Path, batch: str, codes: list[str]) -> None:
    text = (
        SCRIPT.replace("=32", f"={batch}")
        .replace("STAGE,", "1,")
        .replace("=4\n", "=6\n" if codes else "=4\n")
    )
    Path("run.sh").write_text(text)
    assert [each.code for each in check("run.sh", target="0.18.0") if each.code.startswith("DSC2")] == codes


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"train_batch_size": $B}', {"train_batch_size": UNKNOWN}),
        ('{"train_batch_size":$B}', {"train_batch_size": UNKNOWN}),
        ('{"a": ${B}e-5, "b": 1}', {"a": UNKNOWN, "b": 1}),
        ('{"a": -$B}', {"a": UNKNOWN}),
        ('{"nvme_path": "/data/$USER/x", "b": "y"}', {"nvme_path": UNKNOWN, "b": "y"}),
        ('{"betas": [$A, 0.999]}', {"betas": [UNKNOWN, 0.999]}),
        ('{"a": $X$Y}', {"a": UNKNOWN}),
        ('{"zero_optimization": $ZERO}', {"zero_optimization": UNKNOWN}),
        ('{"a": 1 $MORE}', None),
        ('{"$KEY": 1}', None),
        ('{"a": 1, $MORE}', None),
        ("$EVERYTHING", None),
        ('{"a": "$B}', None),
        ("{\n$A\n}", None),
    ],
)
def test_variables_in_a_text(text: str, value: object) -> None:
    document = read_with_variables(text, "run.sh: ds.json")
    assert (document.value() if document else None) == value
