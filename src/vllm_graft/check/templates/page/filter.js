/* Which patches are shown. The buttons of the states are the legend too, and count the cells. */

const search = byId("search");
const withFindings = byId("with-findings");
const asked = new Set();

for (const row of rows) {
  const { id, target, why, how, declared, operation } = row.patch;
  row.text = [id, target, why, how, declared, operation].join("\n").toLowerCase();
}

function states() {
  const counts = new Map(STATES.map((state) => [state, 0]));
  for (const { patch } of rows) for (const { state } of patch.cells) counts.set(state, counts.get(state) + 1);
  return [...counts].filter(([, number]) => number).map(([state, number]) => {
    const button = element("button", { type: "button", className: `state ${state}` },
      state, " ", element("b", {}, String(number)));
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => {
      if (!asked.delete(state)) asked.add(state);
      button.setAttribute("aria-pressed", String(asked.has(state)));
      filter();
    });
    return button;
  });
}

function isShown(row, words) {
  return words.every((each) => row.text.includes(each))
    && (!asked.size || [...asked].some((state) => row.states.has(state)))
    && (!withFindings.checked || row.patch.findings.length > 0);
}

function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const hidden = !isShown(row, words);
    if (row.element.hidden !== hidden) row.element.hidden = hidden;
    if (!hidden) shown += 1;
  }
  byId("nothing").hidden = shown > 0;
  byId("shown").value = shown === rows.length ? plural(shown, "patch").replace("patchs", "patches")
    : `${shown} of ${rows.length} patches`;
  if (current.closest("tr").hidden) reach(matrix.tHead.querySelector("button"));
}

search.addEventListener("input", filter);
withFindings.addEventListener("change", filter);
byId("filter").addEventListener("submit", (event) => event.preventDefault());
