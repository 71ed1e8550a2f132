// What is typed into the search box, for lunr. Each word is sought as it stands, as the beginning of one (the theme adds
// the star), and misspelt by a letter or two; the signs in error messages are operators to lunr, and go. Of a longer
// text, an error message mostly, the words count where they stand in texts: in titles they would say too much.
// What reads as a key, spelt well or not, has that key's entry as its first hit: lunr knows words, and a dotted path is
// several. The theme's search runs in a worker: it gets the index as a message of type 0 and queries as type 2, and
// answers with type 3, hits by page.
const LONG = 5;
const MOST = 3;

function query(text) {
  const words = text.split(/[\s\-,.:;!?=<>*`'"()[\]{}/\\|+~^]+/).filter(Boolean);
  if (words.length > LONG)
    return words.filter((word) => word.length > 2 && !/^\d+$/.test(word)).map((word) => `text:${word}^1`).join(" ");
  const near = (word) => (word.length > 7 ? [`${word}~2`] : word.length > 4 ? [`${word}~1`] : []);
  // Of a dotted key, the sections must not count for less than the many rules that have its last word in their titles.
  const sections = new Set([...text.matchAll(/([a-z]\w+)(?=\.[a-z])/g)].map((found) => found[1]));
  const weighed = (word) => (sections.has(word) ? [`title:${word}^300`] : [`${word}^10`]);
  return words.flatMap((word) => [...weighed(word), word, ...near(word)]).join(" ");
}

/** How many letters lie between two words, where it is not more than `most`; two that changed places count as one. */
function distance(one, other, most) {
  if (Math.abs(one.length - other.length) > most) return most + 1;
  let [before, row] = [[], Array.from({ length: other.length + 1 }, (_, at) => at)];
  for (let i = 1; i <= one.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= other.length; j += 1) {
      const same = one[i - 1] === other[j - 1] ? 0 : 1;
      next.push(Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + same));
      if (i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]) next[j] = Math.min(next[j], before[j - 2] + 1);
    }
    [before, row] = [row, next];
  }
  return row[other.length];
}

/** The keys that a word names: by their whole path or its end; else those that begin so; else the most alike. */
function named(word, paths) {
  const parts = word.split(".").length;
  const ends = paths.map((path) => [path, path.split(".").slice(-parts).join(".").toLowerCase()]);
  const shortest = (found) => found.map(([path]) => path).sort((a, b) => a.length - b.length).slice(0, MOST);
  const whole = paths.filter((path) => path.toLowerCase() === word).map((path) => [path]);
  const exact = whole.length ? whole : ends.filter(([, end]) => end === word);
  if (exact.length) return shortest(exact);
  if (word.length < 5) return [];
  const begun = ends.filter(([, end]) => end.startsWith(word) && /[._]/.test(word));
  if (begun.length) return shortest(begun);
  const most = Math.max(1, Math.floor(word.length / 5));
  const far = ends.map(([path, end]) => [path, distance(word, end, most)]);
  const least = Math.min(...far.map(([, letters]) => letters));
  return least > most ? [] : shortest(far.filter(([, letters]) => letters === least));
}

/** The keys that a query is about: of several words, only those count that are written as keys are. */
function meant(text, paths) {
  const words = text.toLowerCase().split(/[\s"'`:,=(){}[\]]+/).map((word) => word.replace(/^\.+|\.+$/g, "")).filter(Boolean);
  if (words.length > LONG) return [];
  const able = words.length === 1 ? words : words.filter((word) => /^[a-z][\w.]*[_.][\w.]*$/.test(word));
  return [...new Set(able.flatMap((word) => named(word, paths)))].slice(0, MOST);
}

/** The entries of keys in an index, by their paths. */
function entries(docs) {
  const found = docs.filter(({ location }) => location.startsWith("keys/")).map((doc) => [doc.title.replace(/<[^>]*>/g, ""), doc]);
  const leads = (path, { location }) => [path, undefined].includes(location.split("#")[1]) && /^[\w.<>*-]+$/.test(path);
  return new Map(found.filter(([path, doc]) => leads(path, doc)));
}

/** The hits, those of some entries first: each is a list of what was found of a page. */
function hoisted(items, docs) {
  const first = docs.map((doc) => {
    const known = items.flat().find(({ location }) => location === doc.location);
    return [{ terms: {}, ...doc, score: 1000, ...(known && { terms: known.terms }) }];
  });
  const told = new Set(docs.map(({ location }) => location));
  return [...first, ...items.map((page) => page.filter(({ location }) => !told.has(location))).filter((page) => page.length)];
}

if (typeof module !== "undefined") module.exports = { query, meant, entries, hoisted };

if (typeof Worker !== "undefined") {
  let keys = new Map();
  let typed = "";
  const ours = new WeakSet();
  const reached = new WeakSet();
  /** Comes before the theme's listener, which was there earlier, and gives it the answer anew. */
  const answered = (event) => {
    const { type, data } = event.data ?? {};
    if (type !== 3 || !data?.items || ours.has(event)) return;
    event.stopImmediatePropagation();
    const docs = meant(typed, [...keys.keys()]).map((path) => keys.get(path));
    const made = new MessageEvent("message", { data: { type, data: { ...data, items: hoisted(data.items, docs) } } });
    ours.add(made);
    event.target.dispatchEvent(made);
  };
  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...rest) {
    const { type, data } = message ?? {};
    if (type === 0 && data?.docs) {
      keys = entries(data.docs);
      if (!reached.has(this)) this.addEventListener("message", answered, { capture: true });
      reached.add(this);
    }
    const asks = type === 2 && typeof data === "string";
    if (asks) typed = data;
    return post.call(this, asks ? { ...message, data: query(data) } : message, ...rest);
  };
}
