/** How a text that was pasted or opened is most likely to be read. */

import type { Format } from "./engine";

const SHELL = /^(#!|#SBATCH\b|(set|export|cd|source) )|\b(deepspeed|torchrun|srun|accelerate launch|python3?) +(\S+ +)*\S+\.py\b/m;
const YAML = /^(---|[\w.-]+:(\s|$))/m;

/** By the file's name, where there is one; else by the text. */
export function guessed(text: string, name = ""): Format {
  const [, ending = ""] = /\.(\w+)$/.exec(name.toLowerCase()) ?? [];
  if (/^ya?ml$/.test(ending)) {
    return "yaml";
  }
  if (/^(ba|z)?sh$|^(slurm|sbatch)$/.test(ending)) {
    return "sh";
  }
  if (/^h?jsonc?$/.test(ending) || /^\s*[{[]/.test(text)) {
    return "json";
  }
  return SHELL.test(text) ? "sh" : YAML.test(text) ? "yaml" : "json";
}
