// Memory: what is recalled across sessions.

import { empty, h, replace } from "../parts.js";

export async function page({ box }) {
  replace(box, empty("No memory here", "A user's memory is what agents recall across his sessions. This page needs a memory store and its API; then it shows, corrects and forgets what is known of a user.", h("a", { class: "button", href: "sessions" }, "See the sessions")));
}
