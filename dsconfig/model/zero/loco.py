"""Error feedback for the quantised gradients of ZeRO++."""

from typing import Annotated

from pydantic import ConfigDict

from dsconfig.model.key import Key, Reads
from dsconfig.model.section import Section


class ZeroppLocoParam(Section):
    """Error feedback for quantised gradients, handed on unread at load."""

    SOURCE = "runtime/comm/coalesced_collectives.py:all_to_all_loco_quant_reduce"
    READS = (Reads("hand", since="0.16.2", unknown="kept"),)
    model_config = ConfigDict(extra="allow")

    err_beta: Annotated[float, Key(since="0.16.2", until="0.19.7")]
    """Weight of the latest quantisation error in its moving average; 0.8 is a usual value."""
    reset_T: Annotated[int, Key(since="0.16.2", until="0.19.7", unit="steps")]  # noqa: N815
    """Steps after which the remembered error is dropped; 1024 is a usual value."""
