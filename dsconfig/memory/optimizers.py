"""What each optimizer keeps and needs for an element, in bytes of fp32."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsconfig.memory.engines.muon_param_groups import GRAM
from dsconfig.memory.engines.setup import Rule
from dsconfig.memory.not_modelled import NotModelledError, reason

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

CLIENT, CPU_CLIENT = "adamw", "cpu-adam"
"""What a script hands to DeepSpeed where nothing says another optimizer; offloaded, it wants its own."""
FUSED, FOREACH, SINGLE = "fused", "foreach", "single"
ADAM = {FUSED: (8, 0), FOREACH: (8, 4), SINGLE: (8, 8)}
CLIENTS: Mapping[str, Rule] = {
    "adam": Rule("adam", 8, 4),
    "adamw": Rule("adamw", 8, 4),
    "adamw-fused": Rule("adamw-fused", 8, 0),
    "cpu-adam": Rule("cpu-adam", 8, 0),
    "adam-8bit": Rule("adam-8bit", 2, 0, blocks=256),
    "adamw-8bit": Rule("adamw-8bit", 2, 0, blocks=256),
    "sgd": Rule("sgd", 0, 0),
    "sgd-momentum": Rule("sgd-momentum", 4, 0),
    "lion": Rule("lion", 4, 0),
    "adagrad": Rule("adagrad", 4, 4, doubled=True),
}
"""Optimizers that a script hands to DeepSpeed, as torch runs them on GPUs."""


def of_config(kind: str, params: Mapping[str, Json], offloads: bool) -> Rule:
    """The rule of the config's `optimizer` section.

    Raises:
        NotModelledError: what this optimizer keeps is not known here.
    """
    name = kind.lower()
    if name in ("adam", "adamw"):
        if params.get("torch_adam") is True:
            slow = SINGLE if params.get("foreach") is False or offloads else FOREACH
            way = FUSED if params.get("fused") is True else slow
            states, temporary = ADAM[way]
            return Rule(name, states, temporary)
        return Rule(name, *ADAM[FUSED], flat=True)
    if name == "muon":  # the rest of the model is Adam's, without the word `fused`
        slow = SINGLE if params.get("foreach") is False or offloads else FOREACH
        way = slow if params.get("torch_adam") is True else FUSED
        return Rule(name, *ADAM[way], muon=str(params.get("ns_method", GRAM)))
    if name == "lion":
        return Rule(name, 4, 0)
    if name == "sgd":
        momentum = params.get("momentum")
        return Rule(name, 4 if momentum else 0, 0)
    if name == "adagrad":
        return Rule(name, 4, 0) if offloads else CLIENTS["adagrad"]
    raise NotModelledError(f"the optimizer `{kind}` is not modelled: {reason(name)}")


def of_client(name: str, offloads: bool) -> Rule:
    """The rule of an optimizer that a script makes; on the host torch has one temporary more.

    Raises:
        NotModelledError: what this optimizer keeps is not known here.
    """
    if name not in CLIENTS:
        raise NotModelledError(f"the optimizer `{name}` is not modelled", f"give one of {', '.join(CLIENTS)}")
    rule = CLIENTS[name]._replace(client=True)
    return rule._replace(temporary=8) if offloads and rule.temporary else rule
