"""Launch files of programs around DeepSpeed: their formats, the configs they name, and the values they fill in."""
