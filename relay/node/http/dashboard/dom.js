// Elements, made and changed without any text being taken for markup: names come from other machines.

const SVG = "http://www.w3.org/2000/svg";

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

export const element = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

export const drawn = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export const byId = (id) => document.getElementById(id);

export const tag = (text, kind = "") => element("span", { class: `tag ${kind}` }, text);

// Changes the text only if it differs, so that screen readers are not told what they know.
export function say(where, text) {
  if (where.textContent !== text) where.textContent = text;
}

// Replaces what is inside only when what it was made of has changed, so that focus and selection stay.
export function redraw(where, facts, make) {
  const known = JSON.stringify(facts);
  if (where.dataset.facts === known) return;
  where.dataset.facts = known;
  where.replaceChildren(...make());
}

export function definitions(where, pairs) {
  redraw(where, pairs, () => pairs.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}
