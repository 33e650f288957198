// INDEX, written above by build.py: [url, page title, heading, anchor, words] for every section.
const byId = id => document.getElementById(id), root = document.documentElement;

function setMath(where) {
  for (const at of where.querySelectorAll(".math"))
    try {
      katex.render(at.textContent, at, { displayMode: at.tagName === "DIV" });
    } catch (error) {
      console.error(error.message);  // the formula stays as it was typed
    }
}
setMath(document);

// A picture that had to shrink, as on a phone, goes to its own size and back at a tap; then it scrolls sideways.
for (const img of document.querySelectorAll(".picture img")) {
  const measure = () => img.classList.toggle("small", !img.classList.contains("large") && img.naturalWidth > img.width);
  img.onload = measure;
  img.onclick = () => {
    if (img.classList.contains("small") || img.classList.contains("large")) img.classList.toggle("large");
    measure();
  };
  addEventListener("resize", measure);
  measure();
}

byId("theme").onclick = () =>
  localStorage.setItem("theme", root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark");
byId("menu").onclick = event =>
  event.target.setAttribute("aria-expanded", document.body.classList.toggle("open"));

const search = byId("search"), hits = byId("hits");
search.oninput = () => {
  const terms = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const score = ([, title, heading, , words]) => Math.min(...terms.map(term =>
    heading.toLowerCase().includes(term) ? 3 : title.toLowerCase().includes(term) ? 2
      : words.toLowerCase().includes(term) ? 1 : 0));
  const best = terms.length ? INDEX.map(entry => [score(entry), entry]).filter(([points]) => points)
    .sort(([a], [b]) => b - a).slice(0, 12) : [];
  hits.hidden = !terms.length;
  hits.replaceChildren(...best.map(([, [url, title, heading, anchor]]) => {
    const link = Object.assign(document.createElement("a"), { href: `${url}#${anchor}`, innerHTML: heading });
    link.append(Object.assign(document.createElement("small"), { innerHTML: title }));
    return link;
  }));
  setMath(hits);
  if (!best.length) hits.textContent = "Nothing found";
};
hits.onclick = () => hits.hidden = true;
document.addEventListener("keydown", event => {
  if (event.key === "/" && event.target !== search) { event.preventDefault(); search.focus(); }
  if (event.key === "Escape") { hits.hidden = true; search.blur(); }
  if (event.key === "Enter" && event.target === search) hits.querySelector("a")?.click();
});
document.addEventListener("click", event => { if (!event.target.closest("header")) hits.hidden = true; });
