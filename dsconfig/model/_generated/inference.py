"""Generated from dsconfig/model/inference.py by `make generate`; do not edit.

The key table of the sections that only inference configs have.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Any

SECTIONS: dict[str, tuple[tuple[tuple[Any, ...], ...], dict[str, tuple[Any, ...]], tuple[int, ...]]] = {
    'InferenceConfig': (((7006, 1000000000, 'pydantic', 'rejected', True),), {
        'replace_with_kernel_inject': (('bool',), False, ((7006, 1000000000),), {'aliases': (('kernel_inject', 7006, 1000000000),)}),
        'dtype': (('enum', 'torch.float16', 'fp16', 'float16', 'half', 'torch.float32', 'fp32', 'float32', 'float', 'torch.bfloat16', 'bf16', 'bfloat16', 'bfloat', 'torch.int8', 'int8'), 'fp16', ((7006, 1000000000),), {'was': ((8003, ('enum', 'torch.float16', 'fp16', 'float16', 'half', 'torch.float32', 'fp32', 'float32', 'float', 'torch.bfloat16', 'bf16', 'bfloat16', 'torch.int8', 'int8')), (9002, ('enum', 'torch.float16', 'fp16', 'float16', 'half', 'torch.float32', 'fp32', 'float32', 'float', 'torch.int8', 'int8')))}),
        'tensor_parallel': (('section', 'InferenceTensorParallel'), None, ((7006, 1000000000),), {'aliases': (('tp', 7006, 1000000000),)}),
        'enable_cuda_graph': (('bool',), False, ((7006, 1000000000),), {}),
        'use_triton': (('bool',), False, ((10000, 1000000000),), {}),
        'triton_autotune': (('bool',), False, ((10000, 1000000000),), {}),
        'zero': (('section', 'ZeroOptimization'), None, ((7006, 1000000000),), {'flags': ('unread',)}),
        'triangular_masking': (('bool',), True, ((7006, 1000000000),), {'aliases': (('tm', 7006, 1000000000),)}),
        'moe': (('union', ('section', 'InferenceMoE'), ('bool',)), None, ((7006, 1000000000),), {'was': ((19002, ('section', 'InferenceMoE')),)}),
        'keep_module_on_host': (('bool',), False, ((16003, 1000000000),), {}),
        'quant': (('section', 'InferenceQuantization'), None, ((7006, 1000000000),), {'flags': ('unread',)}),
        'checkpoint': (('union', ('str',), ('map', ('any',)), ('null',)), None, ((7006, 1000000000),), {'was': ((9002, ('union', ('str',), ('null',))),)}),
        'base_dir': (('str',), '', ((7006, 1000000000),), {'was': ((10000, ('union', ('str',), ('null',))),), 'defaults': ((10000, None),)}),
        'set_empty_params': (('bool',), False, ((9000, 1000000000),), {}),
        'save_mp_checkpoint_path': (('union', ('str',), ('null',)), None, ((7006, 1000000000),), {}),
        'checkpoint_config': (('section', 'InferenceCheckpoint'), None, ((7006, 1000000000),), {'aliases': (('ckpt_config', 7006, 1000000000),), 'flags': ('unread',)}),
        'return_tuple': (('bool',), True, ((7006, 1000000000),), {}),
        'training_mp_size': (('int', None, None, None, None), 1, ((7006, 1000000000),), {}),
        'replace_method': (('str',), 'auto', ((7006, 1000000000),), {'deprecated': 8001, 'advice': 'remove it: DeepSpeed no longer reads it', 'flags': ('auto_is_value',)}),
        'injection_policy': (('union', ('map', ('any',)), ('null',)), None, ((7006, 1000000000),), {'aliases': (('injection_dict', 7006, 1000000000),), 'flags': ('not_json',)}),
        'injection_policy_tuple': (('union', ('list', ('any',)), ('null',)), None, ((7006, 1000000000),), {'flags': ('internal',)}),
        'config': (('union', ('map', ('any',)), ('null',)), None, ((7006, 1000000000),), {'aliases': (('args', 7006, 1000000000),), 'flags': ('not_json',)}),
        'max_out_tokens': (('int', None, 0, None, None), 1024, ((7006, 1000000000),), {'was': ((19006, ('int', None, None, None, None)),), 'aliases': (('max_tokens', 7006, 1000000000),), 'unit': 'tokens'}),
        'min_out_tokens': (('int', None, None, None, None), 1, ((9000, 1000000000),), {'aliases': (('min_tokens', 9000, 1000000000),), 'unit': 'tokens'}),
        'transposed_mode': (('bool',), False, ((9000, 1000000000),), {}),
        'mp_size': (('int', None, None, None, None), 1, ((7006, 1000000000),), {'deprecated': 7006, 'replaced_by': 'tensor_parallel.tp_size', 'rewrite': ('move', None)}),
        'mpu': (('any',), None, ((7006, 1000000000),), {'deprecated': 7006, 'replaced_by': 'tensor_parallel.mpu', 'rewrite': ('move', None), 'flags': ('not_json',)}),
        'ep_size': (('int', None, None, None, None), 1, ((7006, 1000000000),), {'deprecated': 7006, 'replaced_by': 'moe.ep_size', 'rewrite': ('move', None)}),
        'ep_group': (('any',), None, ((7006, 1000000000),), {'aliases': (('expert_group', 7006, 1000000000),), 'deprecated': 7006, 'replaced_by': 'moe.ep_group', 'rewrite': ('move', None), 'flags': ('not_json',)}),
        'ep_mp_group': (('any',), None, ((7006, 1000000000),), {'aliases': (('expert_mp_group', 7006, 1000000000),), 'deprecated': 7006, 'replaced_by': 'moe.ep_mp_group', 'rewrite': ('move', None), 'flags': ('not_json',)}),
        'moe_experts': (('list', ('any',)), [1], ((7006, 1000000000),), {'deprecated': 7006, 'replaced_by': 'moe.moe_experts', 'rewrite': ('move', None)}),
        'moe_type': (('enum', 'standard', 'residual'), 'standard', ((7006, 1000000000),), {'deprecated': 7006, 'replaced_by': 'moe.type', 'rewrite': ('move', None)}),
    }, (0, 7006, 8001, 8004, 9000, 9003, 10000, 10001, 15000, 16003, 19003, 19007)),
    'InferenceTensorParallel': (((7006, 1000000000, 'pydantic', 'rejected', True),), {
        'enabled': (('bool',), True, ((7006, 1000000000),), {'flags': ('unread',)}),
        'tp_size': (('int', None, None, None, None), 1, ((7006, 1000000000),), {}),
        'tp_grain_size': (('int', None, None, None, None), 64, ((16002, 1000000000),), {'unit': 'elements'}),
        'mpu': (('any',), None, ((7006, 1000000000),), {'flags': ('not_json',)}),
        'tp_group': (('any',), None, ((7006, 1000000000),), {'flags': ('not_json',)}),
    }, (0, 7006, 15000, 16002)),
    'InferenceMoE': (((7006, 1000000000, 'pydantic', 'rejected', True),), {
        'enabled': (('bool',), True, ((7006, 1000000000),), {}),
        'ep_size': (('int', None, None, None, None), 1, ((7006, 1000000000),), {}),
        'moe_experts': (('list', ('any',)), [1], ((7006, 1000000000),), {'aliases': (('num_experts', 7006, 1000000000),)}),
        'type': (('enum', 'standard', 'residual'), 'standard', ((7006, 1000000000),), {}),
        'ep_mp_group': (('any',), None, ((7006, 1000000000),), {'flags': ('not_json',)}),
        'ep_group': (('any',), None, ((7006, 1000000000),), {'aliases': (('expert_group', 7006, 1000000000),), 'flags': ('not_json',)}),
    }, (0, 7006, 15000)),
    'InferenceQuantization': (((7006, 1000000000, 'pydantic', 'rejected', True),), {
        'enabled': (('bool',), True, ((7006, 1000000000),), {}),
        'activation': (('section', 'InferenceActivationQuantization'), None, ((7006, 1000000000),), {}),
        'weight': (('section', 'InferenceWeightQuantization'), None, ((7006, 1000000000),), {}),
        'qkv': (('section', 'InferenceQKVQuantization'), None, ((7006, 1000000000),), {}),
    }, (0, 7006, 15000)),
    'InferenceActivationQuantization': (((7006, 1000000000, 'pydantic', 'rejected', True),), {
        'enabled': (('bool',), True, ((7006, 1000000000),), {}),
        'num_bits': (('int', None, None, None, None), 8, ((7006, 1000000000),), {'unit': 'bits'}),
        'q_type': (('enum', 'symmetric', 'asymmetric'), 'symmetric', ((7006, 1000000000),), {}),
        'q_groups': (('int', None, None, None, None), 1, ((7006, 1000000000),), {}),
    }, (0, 7006, 15000)),
    'InferenceWeightQuantization': (((7006, 1000000000, 'pydantic', 'rejected', True),), {
        'enabled': (('bool',), True, ((7006, 1000000000),), {}),
        'num_bits': (('int', None, None, None, None), 8, ((7006, 1000000000),), {'unit': 'bits'}),
        'q_type': (('enum', 'symmetric', 'asymmetric'), 'symmetric', ((7006, 1000000000),), {}),
        'q_groups': (('int', None, None, None, None), 1, ((7006, 1000000000),), {}),
        'quantized_initialization': (('map', ('any',)), {}, ((10003, 1000000000),), {}),
        'post_init_quant': (('map', ('any',)), {}, ((10003, 1000000000),), {}),
    }, (0, 7006, 10003, 15000)),
    'InferenceQKVQuantization': (((7006, 1000000000, 'pydantic', 'rejected', True),), {
        'enabled': (('bool',), True, ((7006, 1000000000),), {}),
    }, (0, 7006, 15000)),
    'InferenceCheckpoint': (((7006, 1000000000, 'pydantic', 'rejected', True),), {
        'checkpoint_dir': (('union', ('str',), ('null',)), None, ((7006, 1000000000),), {}),
        'save_mp_checkpoint_path': (('union', ('str',), ('null',)), None, ((7006, 1000000000),), {}),
        'base_dir': (('union', ('str',), ('null',)), None, ((7006, 1000000000),), {}),
    }, (0, 7006, 15000)),
}
