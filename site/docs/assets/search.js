// What is typed into the search box, for lunr. A key is one word there. Each word is sought as it stands, as the
// beginning of one, and misspelt by a letter or two; the signs in error messages are operators to lunr, and go. Of a
// longer text, an error message mostly, the words count where they stand in texts: in titles they would say too much.
// The theme's search runs in a worker, which takes queries as messages of type 2.
const LONG = 5;

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

if (typeof module !== "undefined") module.exports = { query };

if (typeof Worker !== "undefined") {
  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...rest) {
    const asked = message && message.type === 2 && typeof message.data === "string";
    return post.call(this, asked ? { ...message, data: query(message.data) } : message, ...rest);
  };
}
