// Makes the example of the home page live with the first key, touch or click: the checker is 6 MB, which a visitor may not want.
(() => {
  const root = document.querySelector(".playground[data-part]");
  if (!root) return;
  const folder = new URL("../playground/", document.currentScript.src);
  let started = false;
  const start = () => {
    if (started) return;
    started = true;
    const status = root.querySelector("#summary");
    const before = status.textContent;
    status.textContent = "starting dsconfig…";
    import(new URL("page.js", folder).href).then(
      () => root.querySelector(".cm-content")?.focus(),
      () => (status.textContent = before), // a build without the playground
    );
  };
  root.addEventListener("click", (event) => {
    if (!event.target.closest("a")) start();
  });
  root.querySelector("#editor").addEventListener("keydown", (event) => {
    if (event.key.length === 1 || event.key === "Enter") start();
  });
})();
