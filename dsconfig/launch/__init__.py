"""Read the files that start DeepSpeed jobs: their formats, the configs they name, and the training arguments."""
