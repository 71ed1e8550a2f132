"""Layer reduction: knowledge distillation with a student cut from its teacher."""

from typing import Annotated

from dsconfig.model.annotations import ABSENT
from dsconfig.model.key import Key, Reads
from dsconfig.model.section import Section


class LayerReduction(Section):
    """Used when `init_compression` is given a teacher model; the keys are then needed."""

    SOURCE = "compression/compress.py:student_initialization"
    READS = (Reads("hand", since="0.7.0", unknown="kept"),)

    enabled: Annotated[
        bool, Key(since="0.7.0", until="0.19.6", source="compression/config.py:get_layer_reduction_enabled")
    ] = False
    """Copy layers of the teacher into the student."""
    keep_number_layer: Annotated[
        int,
        Key(since="0.7.0", until="0.19.6", unread=True, source="compression/constants.py:KEEP_NUMBER_LAYER"),
    ] = ABSENT
    """Layers of the student; for the reader only, the length of `teacher_layer` counts."""
    module_name_prefix: Annotated[str, Key(since="0.7.0", until="0.19.6")] = ABSENT
    """Attribute path of the list of layers, the same in both models."""
    teacher_layer: Annotated[list[int], Key(since="0.7.0", until="0.19.6")] = ABSENT
    """Layers of the teacher, by index, that become the student's in this order."""
    other_module_name: Annotated[list[str], Key(since="0.7.0", until="0.19.6")] = ABSENT
    """Further modules to copy, such as embeddings and the classifier."""
