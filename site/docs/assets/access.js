// Additions to the theme for users of keyboards and screen readers.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  const reach = () => {
    for (const each of document.querySelectorAll(".md-typeset pre > code, .md-typeset__scrollwrap, .md-typeset__table"))
      if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
  };
  reach();
  addEventListener("resize", reach);
});
