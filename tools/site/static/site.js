// Formulas stand on the pages as they stand in the notebooks; KaTeX sets them.  Where the mouse
// rests on one it says what its letters mean, as a table on its page has it, or the glossary.
const LETTER = /(?<![A-Za-z\\])(\\?[A-Za-z]+)(?:_(?:\{[^{}]*\}|\\?\w))?/g;
const bare = (tex) => tex.replace(/[ {}]/g, "");
const plain = (tex) => tex.replace(/\\[A-Za-z]+/g, (name) => katex
  .renderToString(name, { output: "html", throwOnError: false }).replace(/<[^>]*>/g, "")).replace(/[{}]/g, "");

// From each letter in the tables of a page to its meaning.
function letters(page) {
  const found = {};
  for (const row of page.querySelectorAll("tbody tr")) {
    const heads = [...row.closest("table").querySelectorAll("th")].map((at) => at.textContent);
    const meaning = row.cells[heads.indexOf("meaning")];
    const names = [...row.querySelectorAll(".math")].filter((at) => meaning && !meaning.contains(at))
      .flatMap((at) => at.textContent.split(/,(?:\\ )?/)).map(bare);
    names.forEach((name, i, { length }) => {
      const parts = meaning.textContent.split("; ");  // one for each letter, or all for all
      found[name] ??= parts.length === length ? parts[i] : meaning.textContent;
    });
  }
  return found;
}

const formulas = [...document.querySelectorAll(".math")].map((at) => [at, at.textContent]);
const own = letters(document);
for (const [at, tex] of formulas) {
  katex.render(tex, at, { displayMode: at.tagName === "DIV", throwOnError: true });
  if (at.scrollWidth > at.clientWidth && at.tagName === "DIV") at.tabIndex = 0;  // to scroll by key
}
if (formulas.length)
  fetch(document.documentElement.dataset.content_root + "glossary.html").then(async (answer) => {
    const all = letters(new DOMParser().parseFromString(await answer.text(), "text/html"));
    for (const name in all) // a letter alone may be something else here, but for three
      if (name.length === 1 && !"KJV".includes(name)) delete all[name];
    Object.assign(all, own);
    for (const [at, tex] of formulas) {
      const found = [...tex.replace(/\\(tag|text\w*|mathrm|operatorname)\s*\{[^{}]*\}/g, "").matchAll(LETTER)]
        .map(([long, short]) => [bare(long), short].find((name) => name in all)).filter(Boolean);
      at.title = [...new Set(found)].slice(0, 8).map((name) => `${plain(name)}: ${plain(all[name])}`)
        .join("; ");
    }
  }).catch(() => {});  // opened from a disk

// Where all panels of a figure at once would be too small to read, it scrolls sideways (and by key).
for (const img of document.querySelectorAll(".cell_output figure img"))
  img.decode().then(() => {
    const figure = img.closest("figure");
    img.style.minWidth = `${img.naturalWidth / 2}px`;
    if (figure.scrollWidth > figure.clientWidth) figure.tabIndex = 0;
  });
