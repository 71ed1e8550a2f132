// What the theme leaves out for those who use a keyboard or a screen reader.
document.addEventListener("DOMContentLoaded", () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  const reach = () => {
    for (const each of document.querySelectorAll(".md-typeset pre > code, .md-typeset__scrollwrap, .md-typeset__table"))
      if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
  };
  reach();
  addEventListener("resize", reach);
});
