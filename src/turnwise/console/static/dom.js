// Builds DOM nodes. Text always becomes a text node, so nothing that users or agents write is read as HTML.

const SVG = "http://www.w3.org/2000/svg";

// h("button", {class: "quiet", onclick: f, style: {"--w": "40%"}}, "Send", icon("send"))
export function h(tag, props, ...children) {
  const node = document.createElement(tag);
  if (tag === "button") node.type = "button";
  for (const [name, value] of Object.entries(props || {})) {
    const aria = name.startsWith("aria-");
    if (value === null || value === undefined || (value === false && !aria)) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) node.style.setProperty(key, each);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true && !aria ? "" : String(value));
  }
  return add(node, ...children);
}

export function add(node, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

export function replace(node, ...children) {
  node.replaceChildren();
  return add(node, ...children);
}

export const code = (...content) => h("code", null, content);
export const small = (...content) => h("small", null, content);
export const inRow = (...content) => h("p", { class: "row" }, content);

const PATHS = {
  overview: "M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 7h6V4h-6z",
  chat: "M5 5h14v10H10l-4 4v-4H5z",
  sessions: "M5 7h14M5 12h14M5 17h9",
  memory: "M12 4a5 5 0 0 1 5 5c0 3-2 4-2 6H9c0-2-2-3-2-6a5 5 0 0 1 5-5zM10 19h4",
  decisions: "M4 12h6c4 0 3-5 7-5h3M10 12c4 0 3 5 7 5h3",
  review: "M5 12l4 4L19 6",
  quality: "M5 20V11M12 20V4M19 20v-6",
  improve: "M4 18l6-7 4 4 6-9M15 6h5v5",
  experiments: "M9 4h6M10 4v6l-5 9h14l-5-9V4M8 15h8",
  agents: "M12 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM5 20c0-4 3-6 7-6s7 2 7 6",
  policy: "M5 5h14M8 12h8M11 19h2",
  flows: "M4 4h5v5H4zM15 15h5v5h-5zM9 6.5h5a2 2 0 0 1 2 2V15",
  operations: "M3 12h4l3-7 4 14 3-7h4",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  close: "M6 6l12 12M18 6L6 18",
  theme: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM16 16l4 4",
  back: "M14 6l-6 6 6 6",
  redo: "M19 5v5h-5M19 10a7 7 0 1 0 1 5",
  rewind: "M9 7L4 12l5 5M4 12h10a6 6 0 0 1 6 6",
  fork: "M7 5v6c0 3 10 1 10 5v3M7 11v8M5 5h4M15 19h4",
};

export function icon(name) {
  const node = document.createElementNS(SVG, "svg");
  node.setAttribute("viewBox", "0 0 24 24");
  node.setAttribute("class", "icon");
  node.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", PATHS[name] || "");
  node.append(path);
  return node;
}

export function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  return add(node, ...children);
}
