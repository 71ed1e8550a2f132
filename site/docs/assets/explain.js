// Box for tracebacks: runs `dsconfig explain` in the playground's worker and shows the result.

/** Convert the JSON of `dsconfig explain` to headings with paragraphs and lists. */
function sections({ matches, keys }) {
  const [first, ...others] = matches;
  const found = [];
  if (first.score < 1) found.push({ text: `No known message matches the text exactly. The most similar one (score ${first.score} of 1):` });
  found.push({ code: `${first.error}: ${first.text.replaceAll("{}", "…")}` });
  if (first.symptom) found.push({ text: "This message often follows from another error: look for the first one in the log." });
  found.push({ heading: "Cause", text: first.cause }, { heading: "What to do", list: first.remedies });
  if (keys.length) found.push({ heading: "Keys", list: keys });
  found.push({ link: first.page, text: "Page of this message" });
  if (others.length) found.push({ heading: first.score < 1 ? "Also similar" : "Other messages in the text", links: others.map((each) => [each.page, each.text.replaceAll("{}", "…")]) });
  return found;
}

if (typeof module !== "undefined") module.exports = { sections };

function explainBox(root, folder, messages) {
  const element = (tag, properties, ...inner) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...inner);
    return made;
  };
  const marked = (text) => text.split(/`([^`]+)`/).map((part, at) => (at % 2 ? element("code", { textContent: part }) : part));
  const local = (page) => new URL(`${page.split("/").filter(Boolean).pop()}/`, messages).href;
  const pasted = element("textarea", { id: "pasted-error", rows: 8, spellcheck: false, placeholder: "Traceback (most recent call last): …" });
  const status = element("p", { className: "told", role: "status", textContent: "Starting dsconfig…" });
  const result = element("div", {});
  const draw = (explanation) => {
    const parts = sections(explanation).map(({ heading, text, code, list, link, links }) => {
      const inner = heading ? [element("h3", { textContent: heading })] : [];
      if (code) inner.push(element("pre", {}, element("code", { textContent: code, tabIndex: 0 })));
      else if (link) inner.push(element("p", {}, element("a", { href: local(link), textContent: text })));
      else if (text) inner.push(element("p", {}, ...marked(text)));
      if (list) inner.push(element("ul", {}, ...list.map((each) => element("li", {}, ...marked(each)))));
      if (links) inner.push(element("ul", {}, ...links.map(([href, each]) => element("li", {}, element("a", { href: local(href), textContent: each })))));
      return element("div", {}, ...inner);
    });
    result.replaceChildren(...parts);
  };
  let run;
  let asked = 0;
  const show = async () => {
    if (!run) {
      if (pasted.value.trim()) status.textContent = "Starting dsconfig…";
      return;
    }
    const text = pasted.value;
    if (!text.trim()) {
      status.textContent = "The cause and what to do appear here. Nothing is sent.";
      return result.replaceChildren();
    }
    const turn = (asked += 1);
    // A file, so that the folder of the command exists also where no other page wrote to it.
    const answer = await run({ "/project/log.txt": "" }, ["explain", "--output-format", "json", "-"], text);
    if (turn !== asked) return;
    if (!answer.stdout) {
      status.textContent = answer.stderr.replace(/^dsconfig: error: /, "").trim();
      return result.replaceChildren();
    }
    status.textContent = "";
    draw(JSON.parse(answer.stdout));
  };
  let due;
  pasted.addEventListener("input", () => {
    clearTimeout(due);
    due = setTimeout(() => show().catch((error) => (status.textContent = String(error))), 300);
  });
  root.replaceChildren(element("p", {}, element("label", { htmlFor: pasted.id, textContent: "Line or traceback" }), pasted), status, result);
  let begun = false;
  const begin = () => {
    if (begun) return;
    begun = true;
    checker(folder).then(
      (found) => {
        run = found;
        return show();
      },
      ({ message }) => {
        status.replaceChildren(`The box cannot run here: ${message}. On the command line, `,
          element("code", { textContent: "dsconfig explain - < log.txt" }), " prints the same.");
      },
    );
  };
  // On the home page the checker starts with the first touch of the box, because it is 6 MB.
  if (root.dataset.lazy === undefined) begin();
  else for (const kind of ["focus", "input"]) pasted.addEventListener(kind, begin);
  status.textContent = "The cause and what to do appear here. Nothing is sent.";
}

if (typeof document !== "undefined") {
  const root = document.getElementById("explain-error");
  if (root) explainBox(root, new URL("../playground/", document.currentScript.src), new URL("../messages/", document.currentScript.src));
}
