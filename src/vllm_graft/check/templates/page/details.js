/* What a cell or a patch opens to. The address says which: links to it can be sent. */

const details = byId("details");
let opened = null; // the row and the cell that are shown

function found() {
  const [id, source] = location.hash.slice(1).split("@").map(decoded);
  const row = rows.find((each) => each.patch.id === id);
  const cell = row && source !== undefined && row.patch.cells.find((each) => each.source === source);
  return row && (source === undefined || cell) ? { row, cell } : null;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // an address that somebody has typed
  }
}

function follow() {
  opened = found();
  if (!opened) {
    if (details.open) details.close();
    return;
  }
  fill(opened.row.patch, opened.cell);
  if (!details.open) details.showModal();
  details.scrollTop = 0;
  byId("details-title").focus();
}

function fill(patch, cell) {
  byId("details-title").replaceChildren(patch.id, ...(cell ? [` on vLLM ${named(cell)}`] : []));
  const parts = cell ? [...verdict(patch, cell), element("h3", {}, "The patch"), fields(patch, cell)]
    : [fields(patch, cell)];
  byId("details-body").replaceChildren(...parts);
  const index = patch.cells.indexOf(cell);
  step(byId("back"), patch, index > 0 && patch.cells[index - 1]);
  step(byId("forward"), patch, index >= 0 && patch.cells[index + 1]);
}

function named(cell) {
  return survey.sources.find((each) => each.name === cell.source).title;
}

function step(button, patch, cell) {
  button.disabled = !cell;
  button.querySelector("span").textContent = cell ? named(cell) : "";
  button.hidden = !opened.cell;
  button.onclick = () => { location.replace(address(patch, cell)); };
}

function verdict(patch, cell) {
  const parts = [element("p", {}, badge(cell.state))];
  if (cell.reason) parts.push(element("p", { className: "text" }, cell.reason));
  if (cell.fixed) parts.push(element("p", { className: "fixed text" }, element("strong", {}, "Remove it: "), cell.fixed));
  const findings = patch.findings.filter((each) => each.source === cell.source && each.message !== cell.reason);
  if (findings.length) parts.push(listed(findings));
  parts.push(pairs([
    ["vLLM", cell.source !== named(cell) && cell.source],
    ["By itself", cell.fit !== cell.state && cell.fit],
    ["Target", cell.target],
    ["Definition", cell.where !== cell.target && cell.where],
    ["Place", cell.path && (cell.line ? `${cell.path}:${cell.line}` : cell.path)],
    ["How", cell.notes],
    ["Perhaps at", cell.moves],
    ["Lock", cell.drift],
  ]));
  if (cell.signatures) {
    parts.push(element("h3", {}, "Signatures"), signature("vLLM's", cell.signatures[0]),
      signature("The patch's", cell.signatures[1]));
  }
  if (cell.diff) parts.push(element("h3", {}, "What upstream changed in the target"), diff(cell.diff));
  return parts;
}

function fields(patch, cell) {
  const versions = patch.cells.map((each) => {
    const link = element("a", { href: address(patch, each), className: `state ${each.state}` },
      `${named(each)} ${each.state}`);
    if (each === cell) link.setAttribute("aria-current", "true");
    return element("li", {}, link);
  });
  const made = pairs([
    ["Operation", patch.operation],
    ["Target", patch.target],
    ["vLLM", patch.vllm],
    ["Would apply", patch.applies.join(", ")],
    ["Why", patch.why],
    ["How", patch.how],
    ["Upstream", patch.upstream && linked(patch.upstream)],
    ["Removal", patch.remove],
    ["Declared", patch.declared],
    ["Implementation", patch.implementation],
    ["Processes", patch.process?.join(", ")],
    ["Condition", patch.when],
    ["Requires", patch.requires?.join(", ")],
    ["After", patch.after?.join(", ")],
    ["Together", patch.together],
    ["Fixed by", patch.fixed_by],
    ["Review", patch.review],
    ["States", versions.length && [element("ul", { className: "versions" }, ...versions)]],
  ]);
  return element("div", {}, ...(patch.findings.length && !cell ? [listed(patch.findings)] : []), made);
}

function pairs(named) {
  const list = element("dl", {});
  for (const [name, value] of named) {
    if (!value || value.length === 0) continue;
    const nodes = Array.isArray(value) ? value : [value];
    const lines = nodes.every((each) => typeof each === "string") ? [nodes.join("\n")] : nodes;
    list.append(element("dt", {}, name), element("dd", {}, ...lines));
  }
  return list;
}

function listed(findings) {
  return element("ul", { className: "found" }, ...findings.map((each) => element("li", { className: "text" },
    element("strong", { className: each.level }, each.level), ` ${each.message} (${each.rule})`)));
}

function signature(whose, text) {
  return element("figure", { className: "signature-of" }, element("figcaption", {}, whose), element("pre", {}, element("code", {}, text)));
}

function diff(text) {
  let inside = false;
  const lines = text.replace(/\n$/, "").split("\n").map((line) => {
    inside = inside || line.startsWith("@@");
    const kind = !inside ? "file" : { "+": "added", "-": "removed", "@": "hunk" }[line[0]] || "same";
    return element("span", { className: kind }, line || " ");
  });
  return element("pre", { className: "diff", tabIndex: 0 }, element("code", {}, ...lines));
}

// Back to where the reader was; a patch that the filter hides has no place.
details.addEventListener("close", () => {
  if (found()) history.replaceState(null, "", location.pathname + location.search);
  if (!opened) return;
  const { row, cell } = opened;
  const link = cell ? row.links[row.patch.cells.indexOf(cell)] : row.opener;
  (row.element.hidden ? search : link).focus();
  opened = null;
});
details.addEventListener("click", (event) => { if (event.target === details) details.close(); });
byId("close").addEventListener("click", () => details.close());
window.addEventListener("hashchange", follow);
