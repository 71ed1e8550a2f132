// What is typed into the search box, for lunr: the words of an error message without the signs that are operators
// there, and each longer word also as one that is misspelt by a letter or two. The theme's search runs in a worker,
// which takes queries as messages of type 2.
function query(text) {
  const words = text.split(/[\s\-_,.:;!?=<>*`'"()[\]{}/\\+~^]+/).filter(Boolean);
  const near = (word) => (word.length > 7 ? `${word}~2` : word.length > 3 ? `${word}~1` : word);
  // Of a long message, fuzzy words would find everything.
  return [...words, ...(words.length > 6 ? [] : words.map(near))].join(" ");
}

if (typeof module !== "undefined") module.exports = { query };

if (typeof Worker !== "undefined") {
  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...rest) {
    const asked = message && message.type === 2 && typeof message.data === "string";
    return post.call(this, asked ? { ...message, data: query(message.data) } : message, ...rest);
  };
}
