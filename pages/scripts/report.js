// How the report reacts: filters, sorting and folding.
"use strict";
{
const sections = all(".partition");
const rows = all("#partitions tbody tr");
function filter() {
  const wanted = $("filter").value.trim().toLowerCase();
  let shown = 0;
  sections.forEach((section) => {
    const fits = section.dataset.name.toLowerCase().includes(wanted) &&
      (!$("look").checked || section.classList.contains("finding"));
    section.hidden = !fits;
    shown += fits;
  });
  rows.forEach((row) => { row.hidden = sections[row.dataset.at].hidden; });
  $("count").textContent = shown + " of " + sections.length + " partitions";
}
let sorted = "";
function write() {
  const asked = new URLSearchParams();
  if ($("filter").value) asked.set("find", $("filter").value);
  if ($("look").checked) asked.set("look", "1");
  if (sorted) asked.set("sort", sorted);
  writeAddress(asked);
}
function read() {
  const asked = askedInAddress();
  if (!asked) return reveal();
  $("filter").value = asked.get("find") || "";
  $("look").checked = asked.has("look");
  filter();
  const [at, order] = (asked.get("sort") || "").split(",");
  if (all("[data-sort]")[at]) sort(Number(at), order === "descending" ? order : "ascending");
}
$("filter").addEventListener("input", () => { filter(); write(); });
$("look").addEventListener("change", () => { filter(); write(); });
$("unfold").addEventListener("click", () => sections.forEach((one) => { one.open = true; }));
$("fold").addEventListener("click", () => sections.forEach((one) => { one.open = false; }));
function reveal() {
  const section = location.hash && $(decodeURIComponent(location.hash.slice(1)));
  if (section && section.matches(".partition")) {
    section.open = true;
    section.scrollIntoView();
  }
}
addEventListener("hashchange", read);
function sort(at, order) {
  all("thead th").forEach((one) => one.removeAttribute("aria-sort"));
  all("[data-sort]")[at].parentElement.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  rows.sort((a, b) => sign * (a.cells[at].dataset.v - b.cells[at].dataset.v));
  if (rows.length) rows[0].parentElement.append(...rows);
  sorted = at + "," + order;
}
all("[data-sort]").forEach((button) => button.addEventListener("click", () => {
  const head = button.parentElement, at = Number(button.dataset.sort);
  const down = head.getAttribute("aria-sort") === (at ? "descending" : "ascending");
  sort(at, (at ? !down : down) ? "descending" : "ascending");
  write();
}));
all(".script").forEach((one) => { one.hidden = false; });
filter();
read();
}
