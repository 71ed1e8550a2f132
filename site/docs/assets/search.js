// Extend the search of the theme, which runs lunr in a worker. Each word of a query is searched as a whole, as a prefix (the
// theme adds the star) and with typos of a letter or two. Operators of lunr are removed, because error messages contain them.
// A long query is usually an error message: its words are searched in texts, not in titles. If a query looks like a config key,
// even with a typo, that key's entry is the first hit, because lunr splits a dotted path into words. The worker gets the index
// as a message of type 0 and queries as type 2, and answers with type 3: hits by page.
const LONG = 5;
const MOST = 3;

function query(text) {
  const words = text.split(/[\s\-,.:;!?=<>*`'"()[\]{}/\\|+~^]+/).filter(Boolean);
  if (words.length > LONG)
    return words.filter((word) => word.length > 2 && !/^\d+$/.test(word)).map((word) => `text:${word}^1`).join(" ");
  const near = (word) => (word.length > 7 ? [`${word}~2`] : word.length > 4 ? [`${word}~1`] : []);
  // The sections of a dotted key weigh more than the many rules with its last word in their titles.
  const sections = new Set([...text.matchAll(/([a-z]\w+)(?=\.[a-z])/g)].map((match) => match[1]));
  const weighed = (word) => (sections.has(word) ? [`title:${word}^300`] : [`${word}^10`]);
  return words.flatMap((word) => [...weighed(word), word, ...near(word)]).join(" ");
}

/** The edit distance of two words, up to `most`; two swapped letters count as one edit. */
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

/** The keys that match a word: by path or its end, else by prefix, else the most similar. */
function matching(word, paths) {
  const parts = word.split(".").length;
  const ends = paths.map((path) => [path, path.split(".").slice(-parts).join(".").toLowerCase()]);
  const shortest = (matches) => matches.map(([path]) => path).sort((a, b) => a.length - b.length).slice(0, MOST);
  const whole = paths.filter((path) => path.toLowerCase() === word).map((path) => [path]);
  const exact = whole.length ? whole : ends.filter(([, end]) => end === word);
  if (exact.length) return shortest(exact);
  if (word.length < 5) return [];
  const prefixed = ends.filter(([, end]) => end.startsWith(word) && /[._]/.test(word));
  if (prefixed.length) return shortest(prefixed);
  const most = Math.max(1, Math.floor(word.length / 5));
  const far = ends.map(([path, end]) => [path, distance(word, end, most)]);
  const least = Math.min(...far.map(([, letters]) => letters));
  return least > most ? [] : shortest(far.filter(([, letters]) => letters === least));
}

/** The keys that a query is about. In a query of several words, only those that look like keys count. */
function keysIn(text, paths) {
  const words = text.toLowerCase().split(/[\s"'`:,=(){}[\]]+/).map((word) => word.replace(/^\.+|\.+$/g, "")).filter(Boolean);
  if (words.length > LONG) return [];
  const candidates = words.length === 1 ? words : words.filter((word) => /^[a-z][\w.]*[_.][\w.]*$/.test(word));
  return [...new Set(candidates.flatMap((word) => matching(word, paths)))].slice(0, MOST);
}

/** The index entries of keys, by path. A key of training and inference configs leads to its training entry. */
function entries(docs) {
  const keys = docs.filter(({ location }) => location.startsWith("keys/")).map((doc) => [doc.title.replace(/<[^>]*>/g, ""), doc]);
  const leads = (path, { location }) => [path, undefined].includes(location.split("#")[1]) && /^[\w.<>*-]+$/.test(path);
  const isInference = ([, { location }]) => location.startsWith("keys/inference-config/");
  const found = keys.filter(([path, doc]) => leads(path, doc));
  return new Map([...found.filter(isInference), ...found.filter((each) => !isInference(each))]);
}

/** Put some entries before the other hits. Each hit is a list of the entries of one page. */
function withFirst(items, docs) {
  const first = docs.map((doc) => {
    const hit = items.flat().find(({ location }) => location === doc.location);
    return [{ terms: {}, ...doc, score: 1000, ...(hit && { terms: hit.terms }) }];
  });
  const locations = new Set(docs.map(({ location }) => location));
  return [...first, ...items.map((page) => page.filter(({ location }) => !locations.has(location))).filter((page) => page.length)];
}

if (typeof module !== "undefined") module.exports = { query, keysIn, entries, withFirst };

if (typeof Worker !== "undefined") {
  let keys = new Map();
  let typed = "";
  const dispatched = new WeakSet();
  const patched = new WeakSet();
  /** Runs before the listener of the theme, and dispatches the changed answer to it. */
  const onAnswer = (event) => {
    const { type, data } = event.data ?? {};
    if (type !== 3 || !data?.items || dispatched.has(event)) return;
    event.stopImmediatePropagation();
    const docs = keysIn(typed, [...keys.keys()]).map((path) => keys.get(path));
    const answer = new MessageEvent("message", { data: { type, data: { ...data, items: withFirst(data.items, docs) } } });
    dispatched.add(answer);
    event.target.dispatchEvent(answer);
  };
  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...rest) {
    const { type, data } = message ?? {};
    if (type === 0 && data?.docs) {
      keys = entries(data.docs);
      if (!patched.has(this)) this.addEventListener("message", onAnswer, { capture: true });
      patched.add(this);
    }
    const isQuery = type === 2 && typeof data === "string";
    if (isQuery) typed = data;
    return post.call(this, isQuery ? { ...message, data: query(data) } : message, ...rest);
  };
}
