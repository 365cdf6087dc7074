/* The table of patches by versions: drawn once, sorted by its headings, walked with arrow keys. */

const matrix = byId("matrix");
const rows = survey.patches.map((patch) => ({ patch, ...drawn(patch) }));
let current = null; // the one link or heading of the table that Tab reaches

function worst(patch) {
  return patch.cells.reduce((a, b) => (severity(b.state) > severity(a.state) ? b : a));
}

function drawn(patch) {
  const opener = element("a", { href: address(patch), tabIndex: -1 },
    element("span", { className: "id" }, patch.id), " ", ...count(patch.findings),
    element("span", { className: "target", title: patch.target }, element("bdi", {}, patch.target)));
  const cells = patch.cells.map((cell) => drawnCell(patch, cell));
  const first = patch.cells.length ? [drawnCell(patch, worst(patch))] : [];
  for (const cell of first) cell.classList.add("worst");
  const header = element("th", { scope: "row", role: "rowheader" }, opener);
  return {
    element: element("tr", { role: "row" }, header, ...first, ...cells),
    opener,
    links: cells.map((cell) => cell.firstChild),
    states: new Set(patch.cells.map((cell) => cell.state)),
  };
}

function drawnCell(patch, cell) {
  const link = element("a", { href: address(patch, cell), tabIndex: -1 }, cell.state);
  const made = element("td", { role: "gridcell", className: `state ${cell.state}` }, link);
  if (cell.fixed && cell.state !== "out-of-range") made.append(" ", element("span", { className: "mark" }, "remove"));
  return made;
}

function column(label, key, title) {
  const sort = element("button", { type: "button", tabIndex: -1, title }, element("span", {}, label));
  const made = element("th", { scope: "col", role: "columnheader" }, sort);
  sort.addEventListener("click", () => sortBy(made, key));
  return made;
}

// From the worst state on at first; ids from a on.
function sortBy(header, key) {
  const text = typeof key(rows[0] || { patch: { id: "" } }) === "string";
  const was = header.getAttribute("aria-sort");
  const descending = was ? was === "ascending" : !text;
  for (const each of header.parentElement.children) each.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const sign = descending ? -1 : 1;
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  rows.sort((a, b) => sign * compare(key(a), key(b)) || compare(a.patch.id, b.patch.id));
  matrix.tBodies[0].append(...rows.map((row) => row.element));
}

function draw() {
  const columns = survey.sources;
  const headings = columns.map((source, index) =>
    column(source.title, (row) => severity(row.patch.cells[index].state), source.name));
  const first = column("Patch", (row) => row.patch.id, "");
  const second = columns.length ? [column("Worst", (row) => severity(worst(row.patch).state), "")] : [];
  matrix.tHead.append(element("tr", { role: "row" }, first, ...second, ...headings));
  matrix.style.setProperty("--vllms", columns.length);
  matrix.classList.toggle("bare", !columns.length);
  matrix.classList.toggle("dense", columns.length > 12);
  sortBy(first, (row) => row.patch.id);
  reach(first.firstChild);
}

function reach(control) {
  if (current) current.tabIndex = -1;
  current = control;
  current.tabIndex = 0;
}

// The links and headings that are shown, row by row.
function shownRows() {
  return [matrix.tHead.rows[0], ...rows.filter((row) => !row.element.hidden).map((row) => row.element)];
}

function neighbour(control, key) {
  const cell = control.closest("th, td");
  const all = shownRows();
  const column = [...cell.parentElement.children].indexOf(cell);
  const row = all.indexOf(cell.parentElement);
  const last = cell.parentElement.children.length - 1;
  const [to, at] = {
    ArrowUp: [row - 1, column], ArrowDown: [row + 1, column],
    ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
    Home: [row, 0], End: [row, last],
    PageUp: [Math.max(0, row - 10), column], PageDown: [Math.min(all.length - 1, row + 10), column],
  }[key] || [];
  return all[to]?.children[at]?.firstChild;
}

matrix.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const control = event.target.closest("a, button");
  const next = control && neighbour(control, event.key);
  if (!next) return;
  event.preventDefault();
  next.focus();
});
// All of a cell is its link.
matrix.addEventListener("click", (event) => {
  if (event.target.closest("a, button")) return;
  const link = event.target.closest("td, th")?.querySelector("a");
  link?.focus();
  link?.click();
});
matrix.addEventListener("focusin", (event) => reach(event.target));
