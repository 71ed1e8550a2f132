// What breaks between two releases: the same comparison as site/pages/key_history.py, over releases/changes.json.
function differences(data, from, to) {
  const at = (path, place) => {
    const span = data.keys[path].find(([first, last]) => first <= place && place <= last);
    const [read, takes, standard, refused, deprecated] = data.states[span[2]];
    return { read, takes, standard, refused, deprecated };
  };
  const changes = [];
  for (const path of Object.keys(data.keys)) {
    const before = at(path, from);
    const after = at(path, to);
    if (before.read && !after.read) changes.push([path, after.refused ? "removed, rejected by name" : "removed"]);
    else if (after.read && !before.read) changes.push([path, "added"]);
    else if (before.read && after.read) {
      if (before.takes !== after.takes) changes.push([path, `accepts ${after.takes}, was ${before.takes}`]);
      if (before.standard !== after.standard)
        changes.push([path, `default ${after.standard || "none"}, was ${before.standard || "none"}`]);
      if (after.deprecated && !before.deprecated) changes.push([path, "deprecated"]);
    } else if (after.refused && !before.refused) changes.push([path, "rejected by name"]);
  }
  return changes;
}

function newRules(data, from, to) {
  return data.rules.filter(([, , , first, last]) => first <= to && to <= last && !(first <= from && from <= last));
}

if (typeof module !== "undefined") module.exports = { differences, newRules };

async function compare(root) {
  const data = await (await fetch(root.dataset.source)).json();
  const element = (tag, properties, ...inner) => {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...inner);
    return node;
  };
  const options = () => data.releases.map((name) => element("option", { value: name, textContent: name })).reverse();
  const from = element("select", { id: "compare-from" }, ...options());
  const to = element("select", { id: "compare-to" }, ...options());
  const additions = element("input", { type: "checkbox", id: "compare-added" });
  const result = element("div", { ariaLive: "polite" });
  const [old, current] = location.hash.slice(1).split("..");
  from.value = data.releases.includes(old) ? old : "0.14.5";
  to.value = data.releases.includes(current) ? current : data.releases.at(-1);
  const code = (text) => text.split("`").map((part, odd) => (odd % 2 ? element("code", { textContent: part }) : part));
  const row = (...cells) => element("tr", {}, ...cells.map((cell) => element("td", {}, ...cell)));
  const table = (head, rows) =>
    element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...head.map((text) => element("th", { textContent: text, scope: "col" })))),
      element("tbody", {}, ...rows),
    );
  const link = (url, text) => element("a", { href: url }, element("code", { textContent: text }));
  const show = () => {
    const [a, b] = [data.releases.indexOf(from.value), data.releases.indexOf(to.value)];
    history.replaceState(null, "", `#${from.value}..${to.value}`);
    const changes = differences(data, a, b).filter(([, change]) => additions.checked || change !== "added");
    const rules = newRules(data, a, b);
    result.replaceChildren(
      element("p", { textContent: `${changes.length} key changes, ${rules.length} rules that apply to ${to.value} but not to ${from.value}.` }),
      ...(changes.length
        ? [table(["key", "change"], changes.map(([path, change]) => row([link(`../../keys/${data.homes[path]}/#${path}`, path)], code(change))))]
        : []),
      ...(rules.length
        ? [
            table(
              ["rule", "effect", "problem"],
              rules.map(([name, , title, , , effect]) => row([link(`../../rules/${name}/`, name)], [effect], code(title))),
            ),
          ]
        : []),
    );
  };
  for (const each of [from, to, additions]) each.addEventListener("change", show);
  root.replaceChildren(
    element(
      "p",
      { className: "compare-form" },
      element("label", { htmlFor: from.id, textContent: "From DeepSpeed " }),
      from,
      element("label", { htmlFor: to.id, textContent: " to " }),
      to,
      element("label", { htmlFor: additions.id }, " ", additions, " show added keys"),
    ),
    result,
  );
  show();
}

if (typeof document !== "undefined") {
  const root = document.getElementById("compare");
  if (root) compare(root);
}
