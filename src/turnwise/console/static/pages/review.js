// Review: decisions to label, by doubt. Needs the log of labels for claims and undo across people.

import { empty, h, replace } from "../parts.js";

export async function page({ box }) {
  replace(box, empty("Review by list", "A queue that several people share needs labels with an author and a claim. Until then, label on the decisions page: j and k move, y says right, l names another agent.", h("a", { class: "button primary", href: "decisions?labels=none&sure=0-0.5" }, "Unlabelled and unsure")));
}
