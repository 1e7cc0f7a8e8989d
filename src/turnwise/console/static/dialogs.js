// Dialogs, and the one that finds one of many by typing.

import { h, icon, replace } from "./dom.js";

export function dialog(name, label, content, onclose) {
  const box = h("dialog", { class: name, "aria-label": label, onclick: (event) => event.target === box && box.close() }, content);
  box.addEventListener("close", () => { box.remove(); onclose?.(); });
  document.body.append(box);
  box.showModal();
  box.scrollTop = 0;
  return box;
}

// options(words) returns [text, value, icon] of what is found; choose(value) is told one. Returns a function that draws them again.
export function finder(label, options, choose) {
  const list = h("ul", { role: "listbox", id: "found", "aria-label": "Found" });
  const field = h("input", { type: "search", role: "combobox", "aria-expanded": "true", "aria-controls": "found", "aria-label": label, placeholder: label, autocomplete: "off" });
  let found = [], at = 0;
  const take = (value) => { box.close(); choose(value); };
  const draw = () => {
    found = options(field.value.trim());
    at = Math.max(0, Math.min(at, found.length - 1));
    replace(list, found.length ? found.map(([text, value, name], i) => h("li", { role: "option", id: `o${i}`, "aria-selected": i === at, onclick: () => take(value) }, name ? icon(name) : null, text)) : h("li", { role: "option", "aria-selected": false, "aria-disabled": "true" }, "Nothing has this name."));
    field.setAttribute("aria-activedescendant", `o${at}`);
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  field.addEventListener("input", () => { at = 0; draw(); });
  field.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") at += 1;
    else if (event.key === "ArrowUp") at -= 1;
    else if (event.key !== "Enter") return;
    event.preventDefault();
    if (event.key === "Enter") { if (found[at]) take(found[at][1]); } else draw();
  });
  const box = dialog("palette", label, [field, list]);
  draw();
  field.focus();
  return draw;
}
