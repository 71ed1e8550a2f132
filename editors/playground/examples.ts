/** Texts to start from, each with problems to find. */

import type { Format } from "./engine";

export interface Sample {
  readonly title: string;
  readonly format: Format;
  readonly text: string;
  readonly size?: number;
  readonly target?: string;
}

export const EXAMPLES: readonly Sample[] = [
  {
    title: "ZeRO 3 with typos",
    format: "json",
    text: `{
  "train_batch_size": 64,
  "train_micro_batch_size_per_gpu": 4,
  "zero_optimization": {
    "stage": 3,
    "cpu_offload": true,
    "reduce_bucket_sise": 5e8
  },
  "fp16": { "enabled": true, "loss_scale": 0 }
}
`,
  },
  {
    title: "Trainer, ZeRO 3",
    format: "json",
    text: `{
  "train_batch_size": "auto",
  "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto",
  "gradient_clipping": "auto",
  "bf16": { "enabled": "auto" },
  "zero_optimization": {
    "stage": 3,
    "overlap_comm": true,
    "stage3_prefetch_bucket_size": "auto",
    "stage3_param_persistence_threshold": "auto",
    "stage3_max_live_parameters": "auto",
    "gather_16bit_weights_on_model_save": true
  },
  "steps_per_print": "inf"
}
`,
  },
  {
    title: "Accelerate (YAML)",
    format: "yaml",
    text: `compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  zero_stage: 3
  offload_optimiser_device: cpu
  zero3_init_flag: true
  gradient_clipping: 1.0
mixed_precision: bf16
num_machines: 1
num_processes: 8
`,
  },
  {
    title: "LLaMA-Factory (shell script)",
    format: "sh",
    text: `cat > ds_z3.json <<'EOF'
{
  "train_batch_size": "auto",
  "train_micro_batch_size_per_gpu": 4,
  "bf16": { "enabled": "auto" },
  "zero_optimization": { "stage": 3, "overlap_com": true }
}
EOF
FORCE_TORCHRUN=1 llamafactory-cli train \\
  --stage sft --do_train \\
  --model_name_or_path meta-llama/Llama-3.1-8B \\
  --deepspeed ds_z3.json \\
  --per_device_train_batch_size 2 \\
  --gradient_accumulation_steps 8 \\
  --bf16 true
`,
  },
  {
    title: "Elastic batch",
    format: "json",
    target: "0.19.7",
    size: 24,
    text: `{
  "elasticity": {
    "enabled": true,
    "max_train_batch_size": 2000,
    "micro_batch_sizes": [2, 4, 6],
    "min_gpus": 1,
    "max_gpus": 64,
    "version": 0.1
  },
  "train_batch_size": 1024,
  "zero_optimization": { "stage": 2 }
}
`,
  },
];
