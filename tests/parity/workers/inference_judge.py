"""One DeepSpeed release judges configs of `init_inference`, inside the parity environment's venv.

JSON lines in and out as for `judge.py`, without a triplet. No engine is built: the release merges the config
and validates it, as `deepspeed.init_inference` does before it builds one.
"""

import copy
import json
import os
from typing import Any

from judge import Judge, serve  # type: ignore[import-not-found]


class InferenceJudge(Judge):  # type: ignore[misc]  # the judge is imported from this folder
    """DeepSpeed's own `DeepSpeedInferenceConfig`."""

    def __init__(self) -> None:
        super().__init__()
        import deepspeed
        from deepspeed.inference.config import DeepSpeedInferenceConfig

        self.model = DeepSpeedInferenceConfig
        # `use_triton` asks whether Triton is installed: what this machine lacks says nothing of a config
        deepspeed.HAS_TRITON = True

    def build(self, case: "dict[str, Any]") -> Any:
        """The release's config object of one case, from a file as `deepspeed/__init__.py:init_inference` reads it."""
        if "text" not in case:
            self.stage = "config"
            return self.model(**copy.deepcopy(case["config"]))
        path = os.path.join(self.folder, "case.json")
        with open(path, "wb") as file:
            file.write(case["text"].encode("utf-8", "surrogateescape"))
        with open(path) as read:
            config = json.load(read)
        self.stage = "config"
        config.update({})  # merges the keyword arguments: only an object can
        return self.model(**config)

    def triplet(self, built: Any) -> None:
        """None: an inference config has no batch."""


if __name__ == "__main__":
    serve(InferenceJudge.verdict, InferenceJudge)
