"""What pyright's language server offers and shows where a config is built: asked of the server itself."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dsconfig
from tests.model.language_server import LanguageServer

TEXT = """from dsconfig import Config, ZeroOptimization
from dsconfig.types import ZeroOptimizationDict

ZeroOptimization()
ZeroOptimization(reduce_bucket_size=2e8)
zero: ZeroOptimizationDict = {"stage": 3, "": 1}
config = Config(zero_optimization={"offload_param": {"device": "cpu"}, "stage": 3})
Config.from_dict({"fp16": {"": 1}})
print(config.zero_optimization.overlap_comm)
"""
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanguageServer]:
    folder = tmp_path_factory.mktemp("editor")
    (folder / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(ROOT)]}))
    with LanguageServer(folder) as server:
        server.open("use.py", TEXT)
        yield server


def ask(server: LanguageServer, method: str, mark: str) -> Any:
    return server.at(method, (server.folder / "use.py").as_uri(), TEXT, mark)


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        ("\n\nZeroOptimization(", [f"{name}=" for name in dsconfig.ZeroOptimization.model_fields]),
        (
            '{"stage": 3, "',
            [f'"{name}"' for name in dsconfig.ZeroOptimization.model_fields if name != "stage"],
        ),
        ('"fp16": {"', [f'"{name}"' for name in dsconfig.Fp16.model_fields]),
    ],
    ids=["arguments", "dict", "dict within a dict"],
)
def test_every_key_is_offered(server: LanguageServer, mark: str, expected: list[str]) -> None:
    items = ask(server, "completion", mark)["items"]
    keys = [item["label"] for item in items if item["label"].endswith("=") or item["label"][0] == '"']
    assert keys == expected


@pytest.mark.parametrize(
    ("mark", "first", "said"),
    [
        ("(reduce_b", "reduce_bucket_size: float | Literal['auto']", "- Unit: elements"),
        ("(reduce_b", "reduce_bucket_size: float | Literal['auto']", "- Default: `500000000`"),
        ('{"sta', "stage: Enum | Literal[0, 1, 2, 3, 'auto']", "ZeRO stage: shards nothing (0)"),
        (
            '"offload_p',
            "offload_param: OffloadParam | OffloadParamDict | None",
            "- Releases: 0.3.15 and later",
        ),
        ('"devi', "device: Enum | Literal['none', 'cpu', 'nvme', 'auto']", '- Default: `"none"`'),
        (
            "optimization.overlap",
            "overlap_comm: bool | None",
            "Overlap the reduction of gradients with the backward",
        ),
        ("print(config.zero_opt", "zero_optimization: ZeroOptimization", "ZeRO: sharding of training state"),
    ],
)
def test_a_hover_says_what_a_key_is(server: LanguageServer, mark: str, first: str, said: str) -> None:
    text = ask(server, "hover", mark)["contents"]["value"]
    assert first in text.splitlines()[1]
    assert said in text


def test_the_signature_names_every_argument(server: LanguageServer) -> None:
    (signature,) = ask(server, "signatureHelp", "\n\nZeroOptimization(")["signatures"]
    names = [parameter["label"].partition(":")[0] for parameter in signature["parameters"]]
    assert names == ["*", *dsconfig.ZeroOptimization.model_fields]
    assert "Shards the training state" in signature["documentation"]["value"]
