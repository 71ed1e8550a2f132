// Filters the index of rules: each word has to occur in the code, name, effect or problem of a rule.
(() => {
  const tables = [...document.querySelectorAll(".rule-index")];
  const rows = tables.flatMap((table) => [...table.querySelectorAll("tbody tr")]);
  if (!rows.length) return;
  const text = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const input = Object.assign(document.createElement("input"), { type: "search", id: "filter-rules", placeholder: "offload rejected", autocomplete: "off" });
  const label = Object.assign(document.createElement("label"), { htmlFor: input.id, textContent: "Filter by words, code or effect" });
  const count = Object.assign(document.createElement("output"), { htmlFor: input.id });
  const form = Object.assign(document.createElement("p"), { className: "rule-filter" });
  form.append(label, input, count);
  tables[0].previousElementSibling.before(form);
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) row.hidden = !words.every((word) => text.get(row).includes(word));
    for (const table of tables) {
      const isEmpty = !table.querySelector("tbody tr:not([hidden])");
      table.hidden = table.previousElementSibling.hidden = isEmpty;
    }
    const shown = rows.filter(({ hidden }) => !hidden).length;
    count.textContent = shown === rows.length ? "" : `${shown} of ${rows.length} rules`;
  };
  input.addEventListener("input", filter);
  filter(); // the browser may have restored the words
})();
