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

/** The row of the most ranks that can train with a number of GPUs; none if there are fewer than the smallest world size. */
const trained = (rows, available) => rows.filter(({ size }) => size <= available).at(-1);

/** What a number of GPUs does, as a sentence. */
function readout({ batch, rows }, available) {
  const gpus = (count) => `${count} GPU${count === 1 ? "" : "s"}`;
  const row = trained(rows, available);
  if (!row) return `${gpus(available)}: no admissible world size`;
  const sizes = `${batch} samples = micro batch ${row.micro} × ${row.steps} accumulation step${row.steps === 1 ? "" : "s"} × ${gpus(row.size)}`;
  return row.size === available ? `${gpus(available)}: all train. ${sizes}` : `${gpus(available)}: ${row.size} train, ${available - row.size} idle. ${sizes}`;
}

/** The command that prints the plan. */
const command = ({ nodes, perNode }) =>
  `dsconfig elastic plan ds_config.json --nodes ${nodes === 1 ? 1 : `1:${nodes}`} --gpus-per-node ${perNode}`;

if (typeof module !== "undefined") module.exports = { command, highlyComposite, plan, readout, trained };

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
  const verdict = element("p", { className: "status", role: "status" });
  const result = element("div", {});
  let available;

  /** GPUs that are available against GPUs that train: the gap to the diagonal is idle. A slider chooses what is read out. */
  const chart = (chosen, most, perNode) => {
    const width = Math.max(300, Math.min(720, root.clientWidth)); // so that its text is as large as that of the page
    const [height, left, bottom, top] = [width < 500 ? 220 : 260, 44, 36, 10];
    const x = (count) => left + ((width - left - 8) * count) / most;
    const y = (count) => height - bottom - ((height - bottom - top) * count) / most;
    const used = Array.from({ length: most }, (_, place) => trained(chosen.rows, place + 1)?.size ?? 0);
    const steps = used.map((size, place) => `L${x(place)} ${y(size)}L${x(place + 1)} ${y(size)}`).join("");
    const diagonal = used.map((_, place) => `L${x(place)} ${y(place + 1)}L${x(place + 1)} ${y(place + 1)}`).join("");
    const area = (line, name) => svg("path", { d: `M${x(0)} ${y(0)}${line}L${x(most)} ${y(0)}Z`, class: name });
    const nodes = most / perNode;
    const apart = perNode * Math.ceil(nodes / (width < 500 ? 4 : 8));
    const marks = Array.from({ length: Math.floor(most / apart) }, (_, place) => (place + 1) * apart);
    const words = (text, attributes) => {
      const node = svg("text", attributes);
      node.textContent = text;
      return node;
    };
    const axis = marks.flatMap((count) => [
      svg("line", { x1: x(0), x2: x(most), y1: y(count), y2: y(count), class: "grid" }),
      words(`${count}`, { x: x(0) - 6, y: y(count) + 4, "text-anchor": "end" }),
      words(`${count}`, { x: x(count), y: y(0) + 16, "text-anchor": count === most ? "end" : "middle" }),
    ]);
    const dots = chosen.rows.filter(({ size }) => size % perNode === 0 && most <= 1024)
      .map(({ size }) => svg("circle", { cx: x(size - 0.5), cy: y(size), r: 4, class: "node" }));
    const marker = svg("line", { y1: y(most), y2: y(0), class: "marker" });
    const label = `GPUs that train against GPUs that are available: ${chosen.rows.length} of ${most} world sizes keep a batch size of ${chosen.batch}. The table has the numbers.`;
    const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: "chart" },
      ...axis, area(diagonal, "idle"), area(steps, "used"), ...dots, marker,
      words("GPUs available", { x: width - 8, y: height - 4, "text-anchor": "end" }));
    const slider = element("input", { type: "range", id: "plan-available", min: 1, max: most, value: Math.min(most, available ?? most) });
    const told = element("output", { htmlFor: slider.id });
    const point = () => {
      available = Number(slider.value);
      told.textContent = readout(chosen, available);
      slider.setAttribute("aria-valuetext", told.textContent);
      marker.setAttribute("x1", x(available - 0.5));
      marker.setAttribute("x2", x(available - 0.5));
    };
    slider.addEventListener("input", point);
    const follow = ({ clientX }) => {
      const box = picture.getBoundingClientRect();
      const share = (((clientX - box.left) / box.width) * width - left) / (width - left - 8);
      slider.value = Math.max(1, Math.min(most, Math.ceil(share * most)));
      point();
    };
    picture.addEventListener("pointermove", follow);
    picture.addEventListener("pointerdown", follow);
    point();
    const key = (name, text) => element("span", {}, element("i", { className: `key ${name}` }), ` ${text} `);
    return [
      picture,
      element("p", { className: "legend" }, key("used", "GPUs that train"), key("idle", "idle GPUs"), key("node", "whole nodes")),
      element("p", { className: "available" }, element("label", { htmlFor: slider.id, textContent: "GPUs available" }), slider),
      element("p", { className: "readout" }, told),
    ];
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
    if (wrong) {
      verdict.replaceChildren(element("span", { className: "wrong", textContent: wrong }));
      return result.replaceChildren();
    }
    history.replaceState(null, "", `#cap=${state.cap}&micro=${state.micros.join(",")}&nodes=${nodes.input.value}&gpus-per-node=${state.perNode}`);
    const chosen = plan({ ...state, most });
    const rows = Array.from({ length: Number(nodes.input.value) }, (_, place) => {
      const gpus = (place + 1) * state.perNode;
      const row = trained(chosen.rows, gpus);
      const cells = row ? [`${row.size}`, `${gpus - row.size}`, `${row.micro}`, `${row.steps}`] : ["0", `${gpus}`, "–", "–"];
      return element("tr", {}, ...[`${place + 1}`, `${gpus}`, ...cells].map((textContent) => element("td", { textContent })));
    });
    const head = ["nodes", "GPUs", "train", "idle", "micro batch", "steps"].map((textContent) => element("th", { textContent, scope: "col" }));
    const block = { enabled: true, max_train_batch_size: state.cap, micro_batch_sizes: state.micros, max_gpus: most,
      num_gpus_per_node: state.perNode, version: 0.1 };
    const text = `"elasticity": ${JSON.stringify(block, null, 2)}`;
    const scrolled = element("div", { className: "md-typeset__scrollwrap", tabIndex: 0, role: "region", ariaLabel: "Plan by number of nodes" },
      element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows)));
    verdict.replaceChildren(element("strong", { textContent: `${chosen.batch} samples per step` }), ` at ${chosen.rows.length} of ${most} world sizes.`);
    result.replaceChildren(
      element("p", { className: "actions" }, copyButton("Copy elasticity block", () => text),
        copyButton("Copy command", () => command({ nodes: Number(nodes.input.value), perNode: state.perNode })),
        copyButton("Copy link", () => location.href)),
      ...chart(chosen, most, state.perNode),
      scrolled,
      element("pre", {}, element("code", { tabIndex: 0, textContent: text })),
    );
  };
  const field = (label, input, ...more) => element("p", {}, element("label", { htmlFor: input.id, textContent: label }), input, ...more);
  root.replaceChildren(
    field(LABELS.cap, cap.input, cap.slider),
    field("Micro batch sizes that fit on a GPU", micros),
    field(LABELS.nodes, nodes.input, nodes.slider),
    field(LABELS["gpus-per-node"], each.input, each.slider),
    verdict,
    result,
  );
  show();
  addEventListener("resize", show);
}

if (typeof document !== "undefined") {
  const root = document.getElementById("plan-batch");
  if (root) batchPlanner(root);
}
