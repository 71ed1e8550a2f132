/** Guesses the format of a text that was pasted or opened. */

import type { Format } from "./engine";

const SHELL = /^(#!|#SBATCH\b|(set|export|cd|source) )|\b(deepspeed|torchrun|srun|accelerate launch|python3?) +(\S+ +)*\S+\.py\b/m;
const YAML = /^(---|[\w.-]+:(\s|$))/m;

/** By the file name if there is one, otherwise by the text. */
export function guessFormat(text: string, name = ""): Format {
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
