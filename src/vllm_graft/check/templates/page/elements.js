"use strict";
/* What everything else is made of. All text comes from elsewhere and goes in as text. */

const survey = JSON.parse(document.getElementById("survey").textContent);
const values = survey.values.map((each) => JSON.parse(each));
for (const patch of survey.patches) {
  patch.cells = patch.cells.map((cell) =>
    Object.fromEntries(Object.entries(cell).map(([key, place]) => [key, values[place]])));
}

// Worst first: what cannot land, what may not be right, what fits, what is not meant to.
const STATES = ["missing", "signature", "kind", "moved", "changed", "unknown", "ok", "out-of-range"];
const LEVELS = ["error", "warning", "note"];

const byId = (id) => document.getElementById(id);
const severity = (state) => STATES.length - STATES.indexOf(state);
const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function badge(state) {
  return element("span", { className: `badge state ${state}` }, state);
}

// The same slashes as in the id, for people who read the address.
const encoded = (text) => encodeURIComponent(text).replaceAll("%2F", "/");

function address(patch, cell) {
  return `#${encoded(patch.id)}` + (cell ? `@${encoded(cell.source)}` : "");
}

// Links are made of what begins with http:// or https://; all else stays text.
function linked(text) {
  return text.split(/(https?:\/\/[^\s<>"']*[^\s<>"'.,;:)])/).map((part, index) =>
    index % 2 ? element("a", { href: part, rel: "noopener noreferrer" }, part) : part);
}

function count(findings) {
  return LEVELS.map((level) => [level, findings.filter((each) => each.level === level).length])
    .filter(([, number]) => number)
    .flatMap(([level, number]) => [element("span", { className: `count ${level}` }, plural(number, level)), " "]);
}
