// Runs the command in the playground's worker, for the pages that need it.

/** The worker that is built with the playground, as a function that runs the command; it rejects where there is none. */
async function checker(folder) {
  const at = (name) => new URL(name, folder).href;
  if (!(await fetch(at("worker.js"), { method: "HEAD" })).ok) throw new Error("this build of the site has no worker");
  const worker = new Worker(at("worker.js"));
  const waiting = new Map();
  await new Promise((resolve, reject) => {
    worker.onerror = ({ message }) => reject(new Error(message));
    worker.onmessage = ({ data }) => (data.ready ? resolve() : reject(new Error(data.reason)));
    worker.postMessage({ wasm: at("pyodide.asm.wasm"), archive: at("python.archive"), memory: "kept" });
  });
  worker.onmessage = ({ data }) => {
    const { resolve, reject } = waiting.get(data.id) ?? {};
    waiting.delete(data.id);
    if (data.error) reject?.(new Error(data.error.message));
    else resolve?.(data.result);
  };
  let last = 0;
  return (files, args, stdin = "") =>
    new Promise((resolve, reject) => {
      waiting.set(++last, { resolve, reject });
      const write = Object.entries(files).map(([path, content]) => ({ path, content }));
      worker.postMessage({ jsonrpc: "2.0", method: "dsconfig/mirror", params: { write, remove: [] } });
      const params = { arguments: args, stdin, folder: "/project" };
      worker.postMessage({ jsonrpc: "2.0", id: last, method: "dsconfig/run", params });
    });
}
