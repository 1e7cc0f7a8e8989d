// Calls the gateway's REST API. The key lives in sessionStorage only, and goes nowhere but to the gateway.

const meta = (name) => document.querySelector(`meta[name="turnwise-${name}"]`).content;
export const ROOT = new URL(meta("root"), location.href);
const API = new URL(meta("api") + "/", location.href);
const KEY = "turnwise.key";
const SKEW = 2000;
const BACKOFF = [200, 500, 1000, 2000, 3000];

export const auth = {
  get key() { return sessionStorage.getItem(KEY) || ""; },
  set key(value) { value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY); },
  ask: async () => false, // the shell sets this: opens the dialog, returns whether there is a new key
};

export class Problem extends Error {
  constructor(status, body) {
    super(body.title || `The gateway answered ${status}.`);
    Object.assign(this, { status, code: body.code || "", fix: body.fix || "", request: body.request_id || "" });
  }
}

const unreachable = () => new Problem(0, { title: "The gateway cannot be reached.", fix: "Check that it runs; this page tries again when you do." });

function address(path, query) {
  const url = new URL(path, API);
  for (const [name, value] of Object.entries(query || {})) {
    if (value !== undefined && value !== null && value !== "" && value !== false) url.searchParams.set(name, value);
  }
  return url;
}

async function send(path, { method = "GET", query, body, headers = {}, signal } = {}) {
  const sent = { ...headers };
  if (auth.key) sent.Authorization = `Bearer ${auth.key}`;
  if (body !== undefined) sent["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(address(path, query), {
      method, headers: sent, signal, credentials: "omit", body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw unreachable();
  }
  if (answer.ok) return answer;
  let told = {};
  try { told = await answer.json(); } catch { /* no problem details */ }
  throw new Problem(answer.status, told);
}

// The first page's data is asked for while the other scripts are still on their way.
const FIRST = {
  "": [["decision-counts"], ["agents", { limit: 200 }], ["decisions", { slim: true, limit: 8 }]],
  decisions: [["decisions", { slim: true, limit: 100 }], ["decision-counts"]],
};
const ahead = new Map();

function askAhead(path, query) {
  const answer = send(path, { query });
  ahead.set(address(path, query).href, answer);
  return answer;
}

function taken(path, { method = "GET", query }) {
  const { href } = address(path, query), answer = method === "GET" ? ahead.get(href) : null;
  ahead.delete(href);
  return answer;
}

// Requests that are refused at the same time wait for the same dialog.
let asking = null;
const askOnce = (error) => (asking ||= auth.ask(error).finally(() => { asking = null; }));

async function request(path, options = {}) {
  const used = auth.key;
  try {
    return await (taken(path, options) || send(path, options));
  } catch (error) {
    if (error.status !== 401 || !(auth.key !== used || (await askOnce(error)))) throw error;
    return send(path, options);
  }
}

const json = async (path, options) => {
  const answer = await request(path, options);
  return answer.status === 204 ? null : answer.json();
};

export const api = {
  get: (path, query, signal) => json(path, { query, signal }),
  post: (path, body, query) => json(path, { method: "POST", body, query }),
  put: (path, body, query) => json(path, { method: "PUT", body, query }),
  delete: (path, query) => json(path, { method: "DELETE", query }),
  // Changes something whose version the reader saw; the gateway refuses it if there is a newer one.
  change: (method, path, version, body) => json(path, { method, body, headers: { "If-Match": `"${version}"` } }),
};

export const part = encodeURIComponent;

// Yields {event, id, data} of a response with server-sent events. Reads comments, CR LF and data of several lines.
export async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", event = "", data = [], id = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (data.length) yield { event: event || "message", id, data: JSON.parse(data.join("\n")) };
        event = ""; data = [];
        continue;
      }
      const at = line.indexOf(":");
      if (at === 0) continue;
      const name = at < 0 ? line : line.slice(0, at);
      const text = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
      if (name === "event") event = text;
      else if (name === "data") data.push(text);
      else if (name === "id") id = text;
    }
  }
}

const pause = (ms, signal) => new Promise((done) => {
  const timer = setTimeout(done, ms);
  signal?.addEventListener("abort", () => { clearTimeout(timer); done(); });
});

// Streams a message until its answer. After a lost connection it asks `again` with Last-Event-ID, so nothing comes twice.
export async function* follow(first, again, signal) {
  const headers = { Accept: "text/event-stream" };
  let last = "", asked = first, failures = 0;
  while (!signal?.aborted) {
    try {
      const answer = await request(asked.path, { ...asked, headers: last ? { ...headers, "Last-Event-ID": last } : headers, signal });
      for await (const item of events(answer)) {
        failures = 0;
        if (item.event === "closing") break;
        if (item.event === "problem") throw new Problem(item.data.status, item.data);
        if (item.id) last = item.id;
        yield item;
        if (item.event === "answer") return;
      }
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error instanceof Problem && error.status !== 0 && error.status < 500) throw error;
      if (++failures > 12) throw error;
      yield { event: "lost", id: "", data: null };
    }
    // A message with an id may be sent again, and is still the same message; once it was seen, it is only read.
    if (last || !asked.repeatable) asked = again;
    await pause(BACKOFF[Math.min(failures, BACKOFF.length - 1)], signal);
  }
}

const shown = (signal) => new Promise((done) => {
  if (!document.hidden) { done(); return; }
  document.addEventListener("visibilitychange", () => done(), { once: true, signal });
  signal.addEventListener("abort", () => done());
});

// Aborts when the signal does, and when the tab is hidden.
function whileShown(signal) {
  const own = new AbortController();
  signal.addEventListener("abort", () => own.abort(), { signal: own.signal });
  document.addEventListener("visibilitychange", () => document.hidden && own.abort(), { signal: own.signal });
  return own;
}

// Yields what came since the newest known decision, the oldest first. Clocks of processes differ, so the last seconds are yielded again.
async function* missed(query, newest, again, signal) {
  const since = newest && new Date(Date.parse(newest) - SKEW).toISOString();
  const { decisions, next } = await api.get("decisions", { ...query, since, slim: true, limit: 200 }, signal);
  if (next && again) yield null; else yield* decisions.reverse();
}

// Yields new decisions of all processes until the signal is aborted. A browser has six connections to a gateway for all its tabs,
// so a hidden tab gives its own back. Whenever the stream begins, the decisions since the newest one are yielded, also known ones:
// a gap leaves no hole. It yields null if there were too many meanwhile, so that the list has to be read again.
export async function* newDecisions(query, newest, signal) {
  for (let failures = 0, again = false; !signal.aborted; failures += 1) {
    await shown(signal);
    if (signal.aborted) return;
    const own = whileShown(signal);
    try {
      const answer = await request("decision-stream", { query, signal: own.signal });
      for await (const item of events(answer)) {
        failures = 0;
        if (item.event === "decision") {
          newest = item.data.created_at;
          yield item.data;
        } else if (item.event === "following") {
          for await (const each of missed(query, newest, again, own.signal)) {
            newest = each?.created_at ?? newest;
            yield each;
          }
          again = true;
        }
      }
    } catch (error) {
      if (error.name !== "AbortError" && error.status >= 400 && error.status < 500) return;
    } finally {
      own.abort();
    }
    await pause(BACKOFF[Math.min(failures, BACKOFF.length - 1)], signal);
  }
}

export async function all(path, rows, query = {}) {
  const found = [];
  for (let after; ;) {
    const page = await api.get(path, { ...query, after, limit: 200 });
    found.push(...page[rows]);
    if (!page.next) return found;
    after = page.next;
  }
}

// Who has no key yet is asked for it once, so the page's data waits for the first answer.
askAhead("me").then(() => {
  if (!location.search) for (const each of FIRST[location.pathname.slice(ROOT.pathname.length)] || []) askAhead(...each).catch(() => {});
}, () => {});
setTimeout(() => ahead.clear(), 15_000);
