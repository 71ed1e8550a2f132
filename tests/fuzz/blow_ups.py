"""Files that once took far more time or memory than their length, each as a function of a length n.

A pattern is a folder: its files by their names. All have a config, which is what is asked about.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TypeAlias

Files: TypeAlias = Mapping[str, str]
Pattern: TypeAlias = Callable[[int], Files]

CONFIG = json.dumps({
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "zero_optimization": {"stage": 2},
})  # fmt: skip
NAME = "ds_config.json"
JOB = f"deepspeed train.py --deepspeed {NAME}"
PLAIN_JOB = f"deepspeed train.py --deepspeed_config {NAME}"


def _lines(count: int, line: Callable[[int], str]) -> str:
    return "".join(line(at) + "\n" for at in range(count))


def repeated(text: str, size: int) -> str:
    """A text so often that it has about this size."""
    return text * max(1, size // len(text))


def many(size: int, line: str) -> str:
    """As many of a line as the size allows, numbered at `{}`."""
    return _lines(max(1, size // (len(line) + 3)), lambda at: line.replace("{}", str(at)))


NEXT = "\\\n- "
_VALUE = "v" * 8000
SCRIPTS: Mapping[str, Callable[[int], str]] = {
    # What stands before a path, and says who reads it: in a thousand characters.
    "elastic run, list": lambda n: many(n, f"dsconfig elastic run {NEXT * 40}; {NAME}"),
    "elastic run, continued": lambda n: many(n, "dsconfig elastic run " + "\\\n" * 400 + f"; {NAME}"),
    "elastic run, quotes": lambda n: many(n, "dsconfig elastic run " + '\n  "' * 200 + f"; {NAME}"),
    "elastic run, lines": lambda n: many(n, "dsconfig elastic run " + "\n" * 900 + f"; {NAME}"),
    "elastic run, words": lambda n: many(n, f"{'dsconfig elastic run ' * 45}; {NAME}"),
    "elastic run, blanks": lambda n: many(n, f"{'dsconfig' + ' ' * 300}elastic{' ' * 300}run; {NAME}"),
    "elastic run, variables": lambda n: (
        many(n // 2, f"N{{}}={NAME}") + many(n // 2, f"dsconfig elastic run{NEXT * 9}")
    ),
    "dotted words": lambda n: f"x={NAME}\ntrain --deepspeed {repeated('a.', n)}",
    "dotted arguments": lambda n: f"x={NAME}\n" + repeated("--deepspeed args.", n),
    "braces and dots": lambda n: f"x={NAME}\n" + repeated("--deepspeed ${a.a.a.", n),
    "flags": lambda n: many(n, f"{'--deepspeed ' * 80}; {NAME}"),
    "flags, quotes": lambda n: many(n, "--deepspeed " + '"' * 900 + f";{NAME}"),
    "flags, dots": lambda n: many(n, f"--deepspeed {'./' * 450}x {NAME}"),
    "rendezvous": lambda n: many(n, f"deepspeed {'rdzv-conf ,ds_config' * 48} {NAME}"),
    "rendezvous, variables": lambda n: (
        f"N={NAME}\n{repeated('rdzv-conf ,ds_config ', 8 * n)[:250_000]}\ndeepspeed\n"
    ),
    "strategies": lambda n: many(n, f"DeepSpeedStrategy({'config ' * 130};{NAME}"),
    "keys": lambda n: many(n, f"deepspeed{' ' * 900};{NAME}"),
    "lines": lambda n: "deepspeed\n" + many(n, "\n" * 950 + f"; {NAME}"),
    "words": lambda n: "deepspeed\n" + many(n, f"{'a' * 900} {NAME}"),
    "words and figures": lambda n: "deepspeed\n" + many(n, f"{'a1' * 450}: {NAME}"),
    "variables": lambda n: "deepspeed\n" + many(n, f"NAME{{}}={NAME}"),
    "variables, dots": lambda n: f"--deepspeed {repeated('a.', n // 2)}\n" + many(n // 2, f"N{{}}={NAME}"),
    "typed variables": lambda n: "deepspeed\n" + many(n, f"{'a: ' * 300}=; {NAME}"),
    "quoted paths": lambda n: "deepspeed\n" + many(n, '"/' * 450 + NAME),
    "blanks and quotes": lambda n: "deepspeed\n" + many(n, "x = " + "' \"" * 300 + f"; {NAME}"),
    "names": lambda n: "deepspeed\n" + many(n, f"--deepspeed {NAME}"),
    "programs": lambda n: "deepspeed\n" + many(n, f"{'a/' * 400} --deepspeed {NAME}"),
    "programs that are there": lambda n: "deepspeed\n" + many(n, f"train.py --deepspeed {NAME}"),
    "remarks": lambda n: "deepspeed\n" + many(n, f"# --deepspeed {'python' * 150} {NAME}"),
    # What the words of a command become.
    "sed": lambda n: (
        "sed s/x/aaaaaaaaaaaaaaaa/ t.json | "
        + "sed s/a/aaaaaaaaaaaaaaaa/ | " * min(n // 300, 90)
        + "sed s/b/c/ > new.json\ndeepspeed train.py --deepspeed new.json\n"
    ),
    "variable": lambda n: "A=" + _VALUE + "\n" + JOB + repeated(" $A", n),
    "variable in quotes": lambda n: "A=" + _VALUE + "\n" + JOB + " \"" + repeated("$A", n) + "\"",
    "variable in a word": lambda n: f"A={_VALUE}\n{JOB}" + repeated(" " + "$A" * 800, n),
    "variable, commands": lambda n: "A=" + _VALUE + "\n" + repeated("x $A;", n) + JOB,
    "doubled variable": lambda n: "A=aa\n" + repeated("A=$A$A\n", n) + JOB + " $A",
    "doubled array": lambda n: (
        "A=(a)\n" + repeated("A=(\"${A[@]}\" \"${A[@]}\")\n", n) + JOB + " \"${A[@]}\""
    ),
    "array": lambda n: "A=(" + "a " * 4000 + ")\n" + JOB + repeated(" \"${A[@]}\"", n),
    "split variable": lambda n: "A='" + "a " * 4000 + "'\n" + JOB + repeated(" $A", n),
    "grown variable": lambda n: repeated("A+=aaaa\n", n) + JOB + " $A",
    "grown array": lambda n: repeated("A+=(a)\n", n) + JOB + " ${A[@]}",
    "replaced": lambda n: "A=" + "a" * 9000 + "\n" + repeated("x ${A//a/bbbbbbbbbbbbbbbbbbbb};", n) + JOB,
    "defaults": lambda n: "x " + repeated("${A:-", n) + repeated("}", n) + "\n" + JOB,
    "defaults of defaults": lambda n: "A=" + _VALUE + "\nx " + repeated("${B:-$A$A}", n) + "\n" + JOB,
    "defaults assigned": lambda n: f"{many(n, ': ${N{}:=$A$A}')}{JOB}",
    "substitutions": lambda n: "x " + repeated("$(", n) + repeated(")", n) + "\n" + JOB,
    "open substitutions": lambda n: repeated("$(", n) + "\n" + JOB,
    "open braces": lambda n: repeated("${", n) + "\n" + JOB,
    "open quotes": lambda n: repeated("\"$(", n) + "\n" + JOB,
    "open words": lambda n: f"{many(n, 'x ' + '$(' * 600)}{JOB}",
    "open words in quotes": lambda n: "x " + repeated("\"" + "$(`${" * 200 + "\" ", n) + "\n" + JOB,
    "echo": lambda n: "A=" + _VALUE + "\n" + repeated("x $(echo $A $A $A $A)\n", n) + JOB,
    "nested echo": lambda n: "x " + repeated("$(echo ", n) + "a" + repeated(")", n) + "\n" + JOB,
    "texts": lambda n: many(n, "N{}=1") + many(n, "x \"-- a\"") + JOB,
    "texts in texts": lambda n: "A='x --a " + _VALUE + "'\n" + repeated("bash -c \"$A --b\"\n", n) + JOB,
    "sums": lambda n: "x " + repeated("$((9*9*9*9*9*9*9*9*9*9*9*9*9*9*9*9))", n) + "\n" + JOB,
    "powers": lambda n: "x " + repeated("$((2**9999999)) $(expr 9 \\* 9) ", n) + "\n" + JOB,
    "ranges": lambda n: (
        "x " + repeated("{1..1000000000} $(seq 1000000000) $(printf %1000000000d) ", n) + "\n" + JOB
    ),
    "loops": lambda n: f"{repeated('for i in {1..1000000000}; do ', n)}{JOB}; {repeated('done; ', n)}",
    "folders": lambda n: repeated("cd a\n", n) + JOB,
    "folders between jobs": lambda n: repeated("cd a\n" + JOB + "\n", n),
    "here-documents": lambda n: repeated("<<A >b ", n) + "\n" + JOB,
    "here-documents in a row": lambda n: f"{many(n, 'cat <<E{} > f{}')}{JOB}",
    "here-documents, read": lambda n: "A=" + _VALUE + "\n" + repeated("read B <<E\n$A$A$A$A\nE\n", n) + JOB,
    "here-documents, nested": lambda n: f"{many(n, 'cat <<E{}')}{many(n, 'E{}')}{JOB}",
    "here-document, config": lambda n: (
        "A=" + _VALUE + "\ncat <<E > x.json\n" + repeated("$A", n) + "\nE\n"
        "deepspeed train.py --deepspeed x.json"
    ),
    "jobs": lambda n: repeated(JOB + "\n", n),
    "job names": lambda n: many(n, "deepspeed train.py --deepspeed {}.json"),
    "flags of a job": lambda n: (
        f"deepspeed --num_gpus $N train.py --deepspeed {NAME}{repeated(' --a$N $N', n)}"
    ),
    "targets": lambda n: f"{JOB}{repeated(' --target_modules a', n)}",
    "origins": lambda n: (
        "B=\"" + "".join(f"$A{at}" for at in range(1500)) + "\"\n"
        + repeated("x $B\n", n) + JOB + " --num_gpus $B"
    ),
    "slashes": lambda n: f"deepspeed train.py --deepspeed $A{'/' * n}$B.json",
    "inline configs": lambda n: (
        "A=" + "a" * 9000 + "\n" + repeated("deepspeed --deepspeed '{a: '$A'}'\n", n)
    ),
    "slurm": lambda n: "#SBATCH " + repeated("--nodes=1 ", n) + "\n" + repeated("#SBATCH -N 1\n", n) + JOB,
    "blanks": lambda n: " " * n + "\n<<A\n" + repeated(" \n", n) + "\n" + JOB,
}  # fmt: skip
"""Scripts, each beside the config that it names."""


def _manifest(n: int, command: str, **env: str) -> str:
    given = [{"name": name, "value": value} for name, value in env.items()]
    container = {"name": "a", "command": ["bash", "-c"], "args": [command], "env": given}
    spec = {"containers": [container]}
    worker = {"replicas": 2, "template": {"spec": spec}}
    return json.dumps({
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "a"},
        "spec": {"pytorchReplicaSpecs": {"Worker": worker}}, "n": n,
    })  # fmt: skip


OTHERS: Mapping[str, Pattern] = {
    "manifest, variable": lambda n: {
        "job.yaml": _manifest(n, JOB + repeated(" $A", n), A="v" * max(8000, n))
    },
    "manifest, elastic run": lambda n: {
        "job.yaml": "command:\n- dsconfig\n- elastic\n- run\n" + repeated("- a\n", n) + ";\n- " + NAME + "\n"
    },
    "manifest, inputs": lambda n: {
        "job.yml": json.dumps(
            {
                "$schema": "https://azuremlschemas.azureedge.net/latest/commandJob.schema.json",
                "command": JOB + repeated(" ${{inputs.a}}", n),
                "inputs": {"a": "v" * n},
                "compute": "c",
                "environment": "e",
            }
        )
    },
    "manifest, documents": lambda n: {"job.yaml": repeated("---\napiVersion: v1\nkind: deepspeed\n", n)},
    "yaml, merged": lambda n: {
        "train.yaml": "deepspeed: "
        + NAME
        + "\na0: &a0 {x: 1}\n"
        + _lines(min(n // 20, 400), lambda at: f"a{at + 1}: &a{at + 1} {{<<: [*a{at}, *a{at}]}}")
    },
    "yaml, aliases": lambda n: {
        "train.yaml": "deepspeed: "
        + NAME
        + "\na0: &a0 [x]\n"
        + _lines(min(n // 20, 400), lambda at: f"a{at + 1}: &a{at + 1} [*a{at}, *a{at}]")
    },
    "yaml, nested": lambda n: {"train.yaml": "deepspeed: " + NAME + "\na: " + "[" * n},
    "yaml, comments": lambda n: {"ds.yaml": repeated("# dsconfig: ignore[a, b] ", n) + "\n" + CONFIG},
    "hjson, nested": lambda n: {"ds.hjson": "{zero_optimization: " * (n // 20)},
    "hjson, comments": lambda n: {"ds.hjson": repeated("// dsconfig: ignore[a]\n", n) + CONFIG},
    "hjson, blanks": lambda n: {"ds.hjson": "/**/" + " " * n + "/**/\n" + CONFIG},
    "text, capitals": lambda n: {
        "ds.json": json.dumps({"zero_optimization": {"stage": "A" * n}, "train_batch_size": "${" * (n // 2)})
    },
    "suppressed": lambda n: {
        "ds.json": json.dumps({**json.loads(CONFIG), "$dsconfig": {"ignore": ["DSC9" * 10] * (n // 44)}})
    },
    "settings, dots": lambda n: {
        "dsconfig.toml": many(n, "a{}" + ".a" * 400 + " = 1") + 'target = "0.19.8"\n'
    },
    "settings, stars": lambda n: {
        "dsconfig.toml": f'exclude = ["{repeated("*a", n)}b", "{"a" * 200}"]\n',
        f"{'a' * 200}.json": CONFIG,
    },
    "settings, patterns": lambda n: {
        "dsconfig.toml": f"exclude = {json.dumps([f'**/x/*?[a-c]*{at}' for at in range(n // 20)])}\n"
    },
    "settings, words": lambda n: {"dsconfig.toml": f"{'a' * n} = 1\n"},
    "program, words": lambda n: {
        "train.py": "import deepspeed\n" + repeated("config = a.a.a.a.", n) + "\ndeepspeed.initialize\n"
    },
    "program, names": lambda n: {
        "train.py": "import deepspeed\ndeepspeed.initialize\n" + repeated(f"{'a' * 280} {NAME} ", n) + "\n"
        "x['scheduler']['total_num_steps']=1\n"
    },
    "program, keys": lambda n: {
        "train.py": "deepspeed.initialize\n" + repeated('"scheduler" "total_num_steps" ', n)
    },
    "program, trainers": lambda n: {
        "train.py": "deepspeed\nx = '" + NAME + "'\n" + repeated("aTrainingArgument", n)
    },
    "pipeline, classes": lambda n: {"run.sh": PLAIN_JOB, "train.py": repeated("class a(", 8 * n)},
    "pipeline, arguments": lambda n: {
        "run.sh": PLAIN_JOB,
        "train.py": "PipelineModule(num_stages=args.b)\nadd_argument(" + repeated('"--b" ', 8 * n),
    },
    "requirements": lambda n: {
        "requirements.txt": repeated("transformers[a, ", n) + "\n" + repeated("transformers [", n),
        "run.sh": JOB,
    },
    "configs": lambda n: {
        **{f"c{at}/{NAME}": CONFIG for at in range(max(1, n // 400))},
        "run.sh": many(max(n, 10_000), f"deepspeed train.py --deepspeed c{{}}/{NAME}"),
    },
    "scripts": lambda n: {
        f"run{at}.sh": f"{JOB}{repeated(' --a $A', 800)}" for at in range(max(1, n // 800))
    },
    "requirements, words": lambda n: {
        "requirements.txt": repeated("transformers", n) + "\ntransformers[" + "a " * n,
        "run.sh": JOB,
    },
    "optimizer": lambda n: {
        NAME: json.dumps({**json.loads(CONFIG), "optimizer": {"type": repeated("torch", n) + "x"}}),
    },
    "folders, deep": lambda n: {f"{'a/' * min(n // 40, 700)}run.sh": JOB.replace(NAME, "no.json")},
}
"""Manifests, YAML, settings, programs and configs, each beside a config."""


def patterns() -> dict[str, Pattern]:
    """Every pattern by its name."""

    def script(text: Callable[[int], str]) -> Pattern:
        return lambda n: {"run.sh": text(n), "t.json": '{"a": "x", "zero_optimization": {"stage": 2}}'}

    found = {name: script(text) for name, text in SCRIPTS.items()}
    return {name: _beside_config(made) for name, made in {**found, **OTHERS}.items()}


def _beside_config(pattern: Pattern) -> Pattern:
    return lambda n: {NAME: CONFIG, **pattern(n)}
