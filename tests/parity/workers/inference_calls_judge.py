"""One DeepSpeed release judges programs that call `init_inference`, inside the parity environment's venv.

JSON lines in and out as for `judge.py`; a case's text is the program. Its engine is replaced: everything up to the
arguments of the engine is the release's own code.
"""

from typing import Any

from judge import Judge, serve  # type: ignore[import-not-found]


class InferenceCallsJudge(Judge):  # type: ignore[misc]  # the judge is imported from this folder
    """DeepSpeed's own `init_inference`, with an engine that only takes its arguments."""

    def __init__(self) -> None:
        super().__init__()
        import deepspeed

        def take_arguments(*arguments: Any, **keywords: Any) -> None:
            pass

        deepspeed.InferenceEngine = take_arguments
        # `use_triton` asks whether Triton is installed: what this machine lacks says nothing of a config
        deepspeed.HAS_TRITON = True

    def build(self, case: "dict[str, Any]") -> Any:
        """Runs the program of one case, which raises what DeepSpeed raises."""
        self.stage = "config"
        exec(compile(case["text"], "case.py", "exec"), {"net": object()})

    def triplet(self, built: Any) -> None:
        """None: an inference config has no batch."""


if __name__ == "__main__":
    serve(InferenceCallsJudge.verdict, InferenceCallsJudge)
