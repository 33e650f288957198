// In a search, what a page is for counts more than what it also mentions, and names of the API come
// first if what is asked looks like one.
const QUERY = new URLSearchParams(location.search).get("q") || "", NAME = /.[A-Z_.]/.test(QUERY);
const WORDS = (QUERY.match(/\w+/g) || []).map((word) => new RegExp("\\b" + word, "i"));
var Scorer = {
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
  score: ([page, title, , , score, , kind]) => {
    if (kind === "object" || page.startsWith("made/"))
      return score + (NAME && kind !== "text" ? 100 : -60);
    const named = !title.includes(" > ") && WORDS.every((word) => word.test(title));
    return score + (named ? 60 + 40 * WORDS.length / title.split(/\W+/).length : 0)
      + (/^tasks\/(?!index)/.test(page) ? 40 : 0);
  },
};
