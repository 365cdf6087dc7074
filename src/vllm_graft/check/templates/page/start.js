/* Everything is defined; draw it. */

function findings() {
  const all = survey.patches.flatMap((patch) => patch.findings.map((finding) => ({ patch, finding })));
  all.sort((a, b) => LEVELS.indexOf(a.finding.level) - LEVELS.indexOf(b.finding.level));
  byId("findings").hidden = !all.length;
  byId("findings").open = all.length <= 50;
  byId("findings").querySelector("summary").textContent = plural(all.length, "finding");
  byId("findings").querySelector("tbody").append(...all.map(({ patch, finding }) => {
    const cell = patch.cells.find((each) => each.source === finding.source);
    return element("tr", {},
      element("td", { className: finding.level }, finding.level),
      element("td", {}, element("a", { href: address(patch, cell) }, patch.id)),
      element("td", {}, finding.source || ""),
      element("td", {}, finding.rule),
      element("td", { className: "text" }, finding.message));
  }));
}

draw();
byId("states").append(...states());
filter();
findings();
follow();
byId("frame").scrollLeft = byId("frame").scrollWidth;  // the newest vLLM, for which one comes
