// The memory planner: run `dsconfig memory` in the playground's worker, and draw its output.

const MODELS = [
  "llama-1-30b", "llama-1-65b", "llama-2-7b", "llama-2-13b", "llama-2-70b", "llama-3-8b", "llama-3-70b",
  "llama-3.1-405b", "llama-3.2-1b", "llama-3.2-3b", "codellama-7b", "codellama-13b", "codellama-34b", "tinyllama-1.1b",
  "yi-6b", "yi-34b", "smollm2-135m", "smollm2-360m", "smollm2-1.7b", "mistral-7b", "mistral-7b-v0.2", "mistral-7b-v0.3",
  "mistral-nemo", "mistral-small-24b", "mistral-large-2407", "mixtral-8x7b", "mixtral-8x22b", "qwen2.5-0.5b",
  "qwen2.5-1.5b", "qwen2.5-3b", "qwen2.5-7b", "qwen2.5-14b", "qwen2.5-32b", "qwen2.5-72b", "qwen3-0.6b", "qwen3-1.7b",
  "qwen3-4b", "qwen3-8b", "qwen3-14b", "qwen3-32b", "qwen1.5-moe-a2.7b", "qwen2-57b-a14b", "qwen3-30b-a3b",
  "qwen3-235b-a22b", "qwen3-coder-480b-a35b", "gemma-2b", "gemma-7b", "gemma-2-2b", "gemma-2-9b", "gemma-2-27b",
  "gemma-3-270m", "gemma-3-1b", "phi-3-mini-4k", "phi-3-mini-128k", "phi-3-medium-4k", "phi-3-medium-128k", "phi-4",
  "phi-4-mini", "olmo-2-1b", "olmo-2-7b", "olmo-2-13b", "olmo-2-32b", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl",
  "pythia-70m", "pythia-160m", "pythia-410m", "pythia-1b", "pythia-1.4b", "pythia-2.8b", "pythia-6.9b", "pythia-12b",
  "gpt-neox-20b", "opt-125m", "opt-1.3b", "opt-2.7b", "opt-6.7b", "opt-13b", "opt-30b", "opt-66b", "bert-base-uncased",
  "bert-base-cased", "bert-large-uncased", "bert-large-cased", "roberta-base", "roberta-large", "vit-base", "vit-large",
  "qwen2-vl-2b", "qwen2-vl-7b", "qwen2-vl-72b", "qwen2.5-vl-3b", "qwen2.5-vl-7b", "qwen2.5-vl-32b", "qwen2.5-vl-72b",
  "qwen3-vl-2b", "qwen3-vl-4b", "qwen3-vl-8b", "qwen3-vl-32b", "internvl2-2b", "internvl2-8b", "internvl2-26b",
  "internvl2_5-4b", "internvl3-1b", "internvl3-2b", "internvl3-8b", "internvl3-14b", "internvl3-38b", "internvl3-78b",
  "gemma-3-4b", "gemma-3-12b", "gemma-3-27b", "minicpm-llama3-v-2_5", "minicpm-v-2_6", "minicpm-v-4_5", "llava-1.5-7b",
  "llava-1.5-13b", "llava-v1.6-vicuna-7b", "llava-v1.6-vicuna-13b", "llava-v1.6-mistral-7b",
];
const PASTED = "pasted";
const AMOUNT = "amount";
const CARDS = {
  t4: "T4, 16 GB", "v100-16": "V100, 16 GB", "v100-32": "V100, 32 GB", a10g: "A10G, 24 GB", l4: "L4, 24 GB", 3090: "RTX 3090, 24 GB", 4090: "RTX 4090, 24 GB",
  5090: "RTX 5090, 32 GB", a6000: "RTX A6000, 48 GB", l40s: "L40S, 48 GB", "a100-40": "A100, 40 GB", "a100-80": "A100, 80 GB", h100: "H100, 80 GB",
  "h100-nvl": "H100 NVL, 94 GB", h20: "H20, 96 GB", gh200: "GH200, 96 GB", h200: "H200, 141 GB", b200: "B200, 180 GB",
};
const PHASES = { at_rest: "at rest", load: "load", forward: "forward", backward: "backward", step: "step", save: "save" };
const [CONFIG, MODEL] = ["/project/ds_config.json", "/project/model/config.json"];

/** The config that the form describes. */
function config({ stage, offload, micro, steps, precision, gathered }) {
  const zero = { stage };
  if (stage > 0 && offload !== "none") zero.offload_optimizer = { device: "cpu" };
  if (stage === 3 && offload === "both") zero.offload_param = { device: "cpu" };
  if (stage === 3 && gathered) zero.stage3_gather_16bit_weights_on_model_save = true;
  const batch = { train_micro_batch_size_per_gpu: micro, gradient_accumulation_steps: steps };
  const dtype = precision === "fp32" ? {} : { [precision]: { enabled: true } };
  return { ...batch, ...dtype, zero_optimization: zero };
}

/** The arguments of the command, without `--gpu` or `--fit`. */
function command(state) {
  const flag = (name, on) => `--${on ? "" : "no-"}${name}`;
  return [
    "memory", CONFIG, "--model", state.model === PASTED ? MODEL : state.model, "--world-size", `${state.gpus}`,
    "--gpus-per-node", `${Math.min(state.each, state.gpus)}`, "--sequence-length", `${state.sequence}`,
    flag("checkpointing", state.checkpointing), flag("zero-init", state.sharded && state.stage === 3),
    ...(state.attention && state.attention !== "default" ? ["--attention", state.attention] : []),
    ...(state.loss ? ["--loss", state.loss] : []),
    ...(state.trainer ? ["--trainer", state.trainer] : []),
    ...(state.adapters && state.adapters !== "none" ? ["--lora", `r=${state.adapters},target=all`] : []),
    ...(state.adapters !== "none" && state.quantize && state.quantize !== "none" ? ["--quantize", state.quantize] : []),
    "--output-format", "json",
  ];
}

/** The command as it is typed, beside the files that the page copies. */
const typed = (state) =>
  ["dsconfig", ...command(state), "--gpu", gpuOf(state)].join(" ").replace(" --output-format json", "").replaceAll(/\/project\/(model\/)?/g, "");

/** The GPU as `--gpu` and `--fit` accept it. */
const gpuOf = ({ card, memory }) => (card && card !== AMOUNT ? card : `${memory}GiB`);

/** The verdict in words: what `nvidia-smi` should show, and what decides. */
function verdict({ expected, limits }) {
  const words = { fits: "It fits", tight: "It is tight", "does not fit": "It does not fit", unknown: "It is not known whether it fits" };
  const least = expected.low - expected.cached_at_least;
  const low = Math.max(least, Math.min(expected.low, limits.gpu));
  const high = Math.max(low, limits.gpu_verdict === "does not fit" ? expected.high : Math.min(expected.high, Math.max(limits.gpu, low)));
  const range = `${(low / 2 ** 30).toFixed(1)} to ${(high / 2 ** 30).toFixed(1)} GiB expected in nvidia-smi`;
  const why = limits.gpu_reason ? ` ${limits.gpu_reason[0].toUpperCase()}${limits.gpu_reason.slice(1)}.` : "";
  return `${words[limits.gpu_verdict]}: ${range}; the GPU has ${(limits.gpu / 2 ** 30).toFixed(1)} GiB.${why}`;
}

/** The config with the changes of `--fit`. */
function applied(before, changes) {
  const after = structuredClone(before);
  for (const [path, value] of changes.flatMap(({ set }) => Object.entries(set))) {
    const keys = path.split(".");
    const last = keys.pop();
    let at = after;
    for (const key of keys) at = at[key] ??= {};
    at[last] = value;
  }
  return after;
}

/** Phases and their names; `save` exists only if the config gathers the weights. */
const phases = ({ peak }) => Object.entries(PHASES).filter(([phase]) => phase !== "save" || phase in peak);

const gib = (bytes) => (bytes / 2 ** 30).toFixed(2);

/** The result of `--fit`, as lines. */
function advice({ fits, changes, world_size: size, why }, memory) {
  const lines = changes.map(({ told, bound }) => `${told}: upper bound ${gib(bound)} GiB`);
  if (fits) return [...lines, changes.length ? `fits in ${memory} GiB with these changes` : `fits in ${memory} GiB without changes`];
  return [...lines, why ?? `does not fit in ${memory} GiB`, ...(size ? [`${size} ranks would be enough`] : [])];
}

if (typeof module !== "undefined") module.exports = { CARDS, MODELS, advice, applied, command, config, gpuOf, phases, typed, verdict };

function memoryPlanner(root, folder) {
  const element = (tag, properties, ...inner) => {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...inner);
    return node;
  };
  const parameters = new URLSearchParams(location.hash.slice(1));
  const number = (name, standard, most) =>
    element("input", { type: "number", min: 1, max: most, value: Number(parameters.get(name)) || standard, id: `plan-${name}` });
  const choice = (name, standard, options) => {
    const entries = Object.entries(options);
    const node = element("select", { id: `plan-${name}` }, ...entries.map(([value, text]) => element("option", { value, textContent: text })));
    node.value = parameters.get(name) in options ? parameters.get(name) : standard;
    return node;
  };
  const tick = (name, standard) =>
    element("input", { type: "checkbox", id: `plan-${name}`, checked: parameters.has(name) ? parameters.get(name) === "1" : standard });
  const names = Object.fromEntries([...MODELS.map((name) => [name, name]), [PASTED, "paste a config.json"]]);
  const fields = {
    model: choice("model", "llama-3-8b", names),
    sequence: number("sequence", 4096, 10_000_000),
    gpus: number("gpus", 8, 100_000),
    each: number("each", 8, 64),
    card: choice("card", "h100", { ...CARDS, [AMOUNT]: "another amount of memory" }),
    memory: number("gpu-memory", 80, 1000),
    stage: choice("stage", "2", { 0: "0 (no partitioning)", 1: "1 (optimizer states)", 2: "2 (+ gradients)", 3: "3 (+ parameters)" }),
    offload: choice("offload", "none", { none: "none", optimizer: "optimizer to CPU", both: "optimizer and parameters to CPU" }),
    precision: choice("precision", "bf16", { bf16: "bf16", fp16: "fp16", fp32: "fp32" }),
    micro: number("micro", 1, 100_000),
    steps: number("steps", 4, 100_000),
    checkpointing: tick("checkpointing", false),
    sharded: tick("sharded", false),
    gathered: tick("gathered", false),
    adapters: choice("adapters", "none", { none: "none", 8: "LoRA, rank 8", 16: "LoRA, rank 16", 64: "LoRA, rank 64" }),
    quantize: choice("quantize", "none", { none: "none", nf4: "4 bits (NF4)", int8: "8 bits", "gptq-4": "GPTQ, 4 bits", "awq-4": "AWQ, 4 bits" }),
    attention: choice("attention", "default", { default: "default", sdpa: "sdpa", flash: "flash", eager: "eager" }),
    loss: choice("loss", "full", { full: "over all logits", chunked: "in chunks", fused: "fused (Liger, cut cross entropy)" }),
    trainer: choice("trainer", "sft", Object.fromEntries(["sft", "dpo", "kto", "orpo", "simpo", "reward", "grpo"].map((name) => [name, name.toUpperCase()]))),
  };
  const labels = {
    model: "Model", sequence: "Sequence length", gpus: "GPUs", each: "GPUs per node", card: "GPU", memory: "GPU memory (GiB)",
    stage: "ZeRO stage", offload: "Offload", precision: "Precision", micro: "Micro batch size per GPU", steps: "Gradient accumulation steps",
    checkpointing: "Activation checkpointing", sharded: "Build in shards (zero.Init)", gathered: "Gather 16-bit weights on save (rank 0)",
    adapters: "Adapters", quantize: "Frozen layers stored in", attention: "Attention", loss: "Loss", trainer: "Training method",
  };
  const pasted = element("textarea", { id: "plan-pasted", rows: 6, spellcheck: false, placeholder: '{ "model_type": "llama", "hidden_size": 4096, … }' });
  pasted.value = parameters.get("pasted") ?? "";
  const pastedField = element("p", {}, element("label", { htmlFor: pasted.id, textContent: "The model's config.json" }), pasted);
  const status = element("p", { className: "status", role: "status", textContent: "Starting dsconfig…" });
  const result = element("div", {});
  const [fitted, configured] = [element("div", {}), element("div", {})];
  let current = {};

  const read = () =>
    Object.fromEntries(Object.entries(fields).map(([name, input]) => [
      name, input.type === "checkbox" ? input.checked : input.type === "number" || name === "stage" ? Number(input.value) : input.value,
    ]));

  const scrolled = (label, inner) =>
    element("div", { className: "md-typeset__scrollwrap", tabIndex: 0, role: "region", ariaLabel: label }, inner);

  const bars = ({ rank, limits }) => {
    const allocated = (phase) => (phase === "at_rest" ? rank.at_rest : rank.peak[phase]);
    const bound = (phase) => (phase === "at_rest" ? rank.at_rest : rank.bound[phase]);
    const whole = Math.max(limits.gpu, ...phases(rank).map(([phase]) => bound(phase)));
    const share = (bytes) => `${(100 * bytes) / whole}%`;
    const rows = phases(rank).map(([phase, name]) => {
      const parts = rank.terms.map((term, at) => {
        const part = element("span", { className: `term-${at % 10}`, title: `${term.name}: ${gib(term.phases[phase] ?? 0)} GiB` });
        part.style.width = share(term.phases[phase] ?? 0);
        return part;
      });
      const limit = element("i", { title: "GPU memory" });
      limit.style.left = share(Math.max(0, limits.gpu));
      const over = bound(phase) > limits.gpu;
      const label = `${gib(allocated(phase))} GiB${phase === "at_rest" ? "" : `, bound ${gib(bound(phase))}`}`;
      const bar = element("div", { className: "stack", role: "img", ariaLabel: `${name}: ${label}` }, ...parts, limit);
      return element("div", { className: "phase" }, element("span", { textContent: name }), bar,
        element("span", { className: over ? "wrong" : "", textContent: `${label}${over ? ": does not fit" : ""}` }));
    });
    return element("div", { className: "phases" }, ...rows);
  };

  const table = ({ rank }) => {
    const head = ["GiB", ...phases(rank).map(([, name]) => name)].map((textContent) => element("th", { textContent, scope: "col" }));
    const rows = rank.terms.map((term, at) => {
      const name = element("th", { scope: "row" }, element("span", { className: `swatch term-${at % 10}` }), ` ${term.name}`, element("code", { textContent: term.key, title: "key that decides it" }));
      const cells = phases(rank).map(([phase]) => element("td", { textContent: phase in term.phases ? gib(term.phases[phase]) : "–" }));
      return element("tr", {}, name, ...cells);
    });
    return scrolled("Memory of one rank by phase", element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)));
  };

  const code = (config) => element("pre", {}, element("code", { tabIndex: 0, textContent: JSON.stringify(config, null, 2) }));

  /** The estimate; `--fit` takes longer, and `drawFit` adds its answer. */
  const draw = (state, estimate) => {
    const peak = Math.max(estimate.host.at_rest, ...Object.values(estimate.host.bound));
    status.textContent = verdict(estimate);
    current = config(state);
    configured.replaceChildren(element("h2", { textContent: "Config" }), code(current));
    fitted.replaceChildren();
    result.replaceChildren(
      element("p", { className: "actions" }, copyButton("Copy config", () => JSON.stringify(current, null, 2)),
        copyButton("Copy command", () => typed(state)), copyButton("Copy link", () => location.href)),
      bars(estimate),
      table(estimate),
      element("p", { className: "status", textContent: `Host memory: upper bound ${gib(peak)} GiB per node. The line in each bar marks the GPU memory.` }),
      fitted,
      configured,
      element("details", {}, element("summary", { textContent: "Assumptions" }),
        element("ul", {}, ...estimate.assumptions.map((textContent) => element("li", { textContent })))),
    );
  };

  const drawFit = (fit, { limits }) => {
    if (fit.fits && !fit.changes.length) return;
    const lines = advice(fit, (limits.gpu / 2 ** 30).toFixed(1)).map((textContent) => element("li", { textContent }));
    fitted.replaceChildren(element("h2", { textContent: "How to make it fit" }), element("ol", {}, ...lines));
    if (!fit.fits) return;
    current = applied(current, fit.changes);
    configured.replaceChildren(element("h2", { textContent: "Config with these changes" }), code(current));
  };

  const showError = (words) => {
    status.textContent = words.replace(/^dsconfig: error: /, "").trim();
    result.replaceChildren();
  };

  let run;
  let latest = 0;
  const show = async () => {
    const state = read();
    pastedField.hidden = state.model !== PASTED;
    const idle = {
      offload: state.stage === 0, memory: state.card !== AMOUNT, quantize: state.adapters === "none",
      sharded: state.stage !== 3, gathered: state.stage !== 3,
    };
    for (const [name, isIdle] of Object.entries(idle)) fields[name].closest("p").hidden = isIdle;
    const wrong = Object.entries(fields).find(([, input]) => !input.closest("p").hidden && (!input.checkValidity() || input.value === ""));
    if (!run) return;
    if (wrong) return showError(`${labels[wrong[0]]}: enter a whole number from 1 to ${Number(wrong[1].max).toLocaleString("en")}.`);
    if (state.model === PASTED && !pasted.value.trim()) return showError("Paste the model's config.json.");
    const shared = Object.entries(state).map(([name, value]) => [fields[name].id.replace("plan-", ""), String(Number.isFinite(Number(value)) ? Number(value) : value)]);
    if (state.model === PASTED) shared.push(["pasted", pasted.value.replace(/\s+/g, " ")]);
    history.replaceState(null, "", `#${new URLSearchParams(shared)}`);
    const turn = (latest += 1);
    const files = { [CONFIG]: JSON.stringify(config(state)), [MODEL]: pasted.value };
    const estimate = await run(files, [...command(state), "--gpu", gpuOf(state)]);
    if (turn !== latest) return;
    if (!estimate.stdout) return showError(estimate.stderr);
    const told = JSON.parse(estimate.stdout);
    draw(state, told);
    const fit = await run({}, [...command(state), "--fit", gpuOf(state)]);
    if (turn === latest && fit.stdout) drawFit(JSON.parse(fit.stdout).fit, told);
  };

  let due;
  const later = () => {
    clearTimeout(due);
    due = setTimeout(() => show().catch((error) => showError(String(error))), 200);
  };
  for (const input of [...Object.values(fields), pasted]) input.addEventListener("input", later);
  const field = ([name, input]) => element("p", {}, element("label", { htmlFor: input.id, textContent: labels[name] }), input);
  const [model, ...others] = Object.entries(fields).map(field);
  root.replaceChildren(status, model, pastedField, ...others, result);
  show();
  checker(folder).then(
    (command) => {
      run = command;
      return show();
    },
    ({ message }) => {
      status.replaceChildren(`The planner cannot run here: ${message}. On the command line, `,
        element("code", { textContent: "dsconfig memory" }), " prints the same estimate.");
    },
  );
}

if (typeof document !== "undefined") {
  const root = document.getElementById("plan-memory");
  if (root) memoryPlanner(root, new URL("../playground/", document.currentScript.src));
}
