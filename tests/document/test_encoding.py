"""Files in other encodings are reported with advice."""

from __future__ import annotations

import codecs

import pytest

import dsconfig
from dsconfig.document import read_text

TEXT = '{"train_batch_size": 8, "_comment": "é"}\r\n'


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"), "UTF-16 text"),
        (codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"), "UTF-16 text"),
        (TEXT.encode("utf-16-le"), "UTF-16 text"),
        (TEXT.replace("é", "e").encode("utf-16-be"), "UTF-16 text"),
        (TEXT.encode("utf-32"), "UTF-32 text"),
        (TEXT.replace("é", "e").encode("utf-32-be"), "UTF-32 text"),
        (TEXT.encode("latin-1"), "`é` in Windows-1252"),
        (bytes(range(256)), "binary data"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0", "binary data"),
        (b'{"train_batch_size": 8\0}', "binary data"),
    ],
)
@pytest.mark.parametrize("consumer", ["deepspeed", "transformers"])
def test_encoding_is_named(data: bytes, says: str, consumer: str) -> None:
    report = dsconfig.check(data, target="0.19.8", consumer=consumer)
    assert [(finding.code, finding.effect.value) for finding in report if says in finding.message] == [
        ("DSC004", "rejected")
    ]
    assert len(list(report)) == 1 or "Windows" in says


def test_a_character_that_yaml_forbids_is_counted_in_characters() -> None:
    document = read_text('é: "ü\x00"\ntrain_batch_size: 8\n', "a.yaml", "yaml")
    (problem,) = document.problems
    assert document.text[problem.span.start] == "\x00"
