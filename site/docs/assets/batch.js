// The batch planner, with the heuristic of elastic/deepspeed/batch_heuristics.py. A test compares the two.

/** The highly composite numbers up to a limit: each has more divisors than any smaller number. */
function highlyComposite(limit) {
  const divisors = new Uint16Array(limit + 1);
  for (let step = 1; step <= limit; step += 1) for (let at = step; at <= limit; at += step) divisors[at] += 1;
  const numbers = [];
  let most = 0;
  for (let number = 1; number <= limit; number += 1) {
    if (divisors[number] > most) {
      most = divisors[number];
      numbers.push(number);
    }
  }
  return numbers;
}

const gcd = (a, b) => (b ? gcd(b, a % b) : a);

/** The batch size under the cap that works for the most world sizes, with micro batch and steps of each. */
function plan({ cap, micros, most }) {
  const scales = highlyComposite(Math.floor(cap / Math.min(...micros)));
  const common = micros.reduce((all, each) => (all > cap ? all : (all / gcd(all, each)) * each), 1);
  const batches = [...new Set([...micros, common])]
    .filter((base) => base <= cap)
    .map((base) => base * scales.filter((scale) => scale <= Math.floor(cap / base)).at(-1));
  const sizes = (batch) => {
    const admissible = [];
    for (let size = 1; size <= Math.min(most, batch); size += 1)
      if (micros.some((micro) => batch % (micro * size) === 0)) admissible.push(size);
    return admissible;
  };
  let best = { batch: Math.min(...micros), sizes: [] };
  for (const batch of new Set(batches)) {
    const candidate = sizes(batch);
    const better = candidate.length - best.sizes.length || batch - best.batch;
    if (better > 0) best = { batch, sizes: candidate };
  }
  const row = (size) => {
    const share = best.batch / size;
    const micro = Math.max(...micros.filter((each) => share % each === 0));
    return { size, micro, steps: share / micro };
  };
  return { batch: best.batch, rows: best.sizes.map(row) };
}

if (typeof module !== "undefined") module.exports = { plan, highlyComposite };

function batchPlanner(root) {
  const element = (tag, properties, ...inner) => {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...inner);
    return node;
  };
  const svg = (tag, attributes, ...inner) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...inner);
    return node;
  };
  const parameters = new URLSearchParams(location.hash.slice(1));
  const LABELS = {
    cap: "Maximum batch size (samples per step)",
    nodes: "Maximum number of nodes",
    "gpus-per-node": "GPUs per node",
  };
  const number = (name, standard, least, largest) => {
    const value = Math.min(largest, Math.max(least, Number(parameters.get(name)) || standard));
    const input = element("input", { type: "number", min: least, max: largest, value, id: `plan-${name}` });
    const slider = element("input", { type: "range", min: least, max: Math.min(largest, standard * 4), value });
    slider.setAttribute("aria-label", `${LABELS[name]}, slider`);
    slider.addEventListener("input", () => ((input.value = slider.value), show()));
    input.addEventListener("input", () => ((slider.value = input.value), show()));
    return { name, input, slider };
  };
  const cap = number("cap", 2000, 1, 100000);
  const nodes = number("nodes", 8, 1, 512);
  const each = number("gpus-per-node", 8, 1, 64);
  const micros = element("input", { id: "plan-micro", value: parameters.get("micro") || "2, 4, 6", inputMode: "numeric" });
  micros.addEventListener("input", () => show());
  const result = element("div", { ariaLive: "polite" });

  const drawing = (chosen, most) => {
    const width = 720;
    const wide = width / most;
    const bars = chosen.rows.map(({ size, micro, steps }) => {
      const whole = size % Number(each.input.value) === 0;
      const attributes = { x: (size - 1) * wide, y: whole ? 0 : 24, width: Math.max(1, wide * 0.8), height: whole ? 60 : 36 };
      const bar = svg("rect", { ...attributes, class: whole ? "whole" : "part" });
      const title = svg("title", {});
      title.textContent = `${size} ranks: ${chosen.batch} = ${micro} × ${steps} × ${size}`;
      bar.append(title);
      return bar;
    });
    const label = `${chosen.rows.length} of ${most} world sizes keep a batch size of ${chosen.batch}`;
    return svg("svg", { viewBox: `0 0 ${width} 64`, preserveAspectRatio: "none", role: "img", "aria-label": label, class: "strip" }, ...bars);
  };

  const show = () => {
    const sizes = micros.value.split(/[\s,]+/).filter(Boolean).map(Number);
    const state = { cap: Number(cap.input.value), micros: [...new Set(sizes)], perNode: Number(each.input.value) };
    const most = Number(nodes.input.value) * state.perNode;
    const wrong =
      (!sizes.length || sizes.some((size) => !Number.isInteger(size) || size < 1)) ? "Micro batch sizes must be whole numbers, such as 2, 4, 6."
      : ![state.cap, most].every((size) => Number.isInteger(size) && size > 0) || state.cap > 100000 || most > 4096
        ? "The maximum batch size must be a whole number up to 100,000, with at most 4,096 GPUs in total."
      : Math.max(...sizes) > state.cap ? `Micro batch size ${Math.max(...sizes)} is larger than the maximum batch size ${state.cap}.` : "";
    if (wrong) return result.replaceChildren(element("p", { className: "wrong", textContent: wrong }));
    history.replaceState(null, "", `#cap=${state.cap}&micro=${state.micros.join(",")}&nodes=${nodes.input.value}&gpus-per-node=${state.perNode}`);
    const chosen = plan({ ...state, most });
    const at = new Map(chosen.rows.map((row) => [row.size, row]));
    const rows = Array.from({ length: Number(nodes.input.value) }, (_, place) => {
      const size = (place + 1) * state.perNode;
      const row = at.get(size);
      const below = chosen.rows.filter((other) => other.size < size).at(-1);
      const cells = row
        ? [`${row.micro}`, `${row.steps}`, `${chosen.batch} = ${row.micro} × ${row.steps} × ${size}`]
        : ["–", "–", below ? `not admissible; ${below.size} ranks can train` : "not admissible"];
      return element("tr", {}, ...[`${place + 1}`, `${size}`, ...cells].map((textContent) => element("td", { textContent })));
    });
    const head = ["nodes", "ranks", "micro batch", "accumulation", "samples per step"].map((textContent) => element("th", { textContent, scope: "col" }));
    const block = { enabled: true, max_train_batch_size: state.cap, micro_batch_sizes: state.micros, max_gpus: most,
      num_gpus_per_node: state.perNode, version: 0.1 };
    const text = `"elasticity": ${JSON.stringify(block, null, 2)}`;
    const copy = element("button", { type: "button", className: "md-button", textContent: "Copy elasticity block" });
    copy.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    });
    result.replaceChildren(
      element("p", {}, element("strong", { textContent: `${chosen.batch} samples per step` }),
        ` at ${chosen.rows.length} of ${most} world sizes. Tall bars are whole nodes.`),
      drawing(chosen, most),
      element("div", { className: "md-typeset__scrollwrap", tabIndex: 0, role: "region", ariaLabel: "Plan by number of nodes" },
        element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows))),
      element("pre", {}, element("code", { tabIndex: 0, textContent: text })),
      copy,
    );
  };
  const field = (label, input, ...more) => element("p", {}, element("label", { htmlFor: input.id, textContent: label }), input, ...more);
  root.replaceChildren(
    field(LABELS.cap, cap.input, cap.slider),
    field("Micro batch sizes that fit on a GPU", micros),
    field(LABELS.nodes, nodes.input, nodes.slider),
    field(LABELS["gpus-per-node"], each.input, each.slider),
    result,
  );
  show();
}

if (typeof document !== "undefined") {
  const root = document.getElementById("plan-batch");
  if (root) batchPlanner(root);
}
