// A button that copies a text, for the planners.

/** `text` is called at the click; the label says for two seconds what happened. */
function copyButton(label, text) {
  const button = Object.assign(document.createElement("button"), { type: "button", className: "md-button", textContent: label });
  let back;
  button.addEventListener("click", async () => {
    // Without HTTPS, or without permission, a browser has no clipboard.
    const isCopied = await Promise.resolve(navigator.clipboard?.writeText(text()).then(() => true)).catch(() => false);
    button.textContent = isCopied ? "Copied" : "The browser does not allow it";
    clearTimeout(back);
    back = setTimeout(() => (button.textContent = label), 2000);
  });
  return button;
}
