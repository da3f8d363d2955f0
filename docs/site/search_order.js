// How a search orders pages. Words weigh as Sphinx has it; decisions and the changelog, in which
// nearly every word occurs, come behind the pages that tell how it is.
var Scorer = {
  score: ([page, , , , score]) =>
    /^(docs\/adr\/|CHANGELOG)/.test(page) ? score - 100 : score,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: {0: 15, 1: 5, 2: -5},
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
