// Additions to the theme for users of keyboards and screen readers.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  // Keys break after their dots and underscores, not within words.
  for (const each of document.querySelectorAll(".md-nav--secondary .md-ellipsis, .md-typeset :is(td, th, h1, h2, h3, p, li) code")) {
    for (const node of [...each.childNodes].filter(({ nodeType, data }) => nodeType === 3 && /\w[._]\w/.test(data) && data.trim().length > 8)) {
      const parts = node.data.split(/(?<=\w[._]|[._]\w{40})(?=\w)/);
      node.replaceWith(...parts.flatMap((part, at) => (at ? [document.createElement("wbr"), part] : [part])));
    }
  }
  const reach = () => {
    for (const each of document.querySelectorAll(".md-typeset pre > code, .md-typeset__scrollwrap, .md-typeset__table"))
      if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
  };
  reach();
  addEventListener("resize", reach);
});
