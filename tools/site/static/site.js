// Formulas stand on the pages as they stand in the notebooks; KaTeX sets them.
for (const at of document.querySelectorAll(".tex")) {
  katex.render(at.textContent, at, { displayMode: at.tagName === "DIV", throwOnError: true });
  if (at.scrollWidth > at.clientWidth && at.tagName === "DIV") at.tabIndex = 0;  // to scroll by key
}
