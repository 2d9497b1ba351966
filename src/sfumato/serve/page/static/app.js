/** What all views share: the visitor's key, calls with it, problems, tables and polling. */

const ITEM = "sfumato.key";
export const part = (id) => document.getElementById(id);
export const number = (value, digits = 0) =>
  Number(value).toLocaleString("en", { maximumFractionDigits: digits });
export const percent = (value) => `${Math.round(100 * value)} %`;

/** The factor by which epsilon lets odds change, in words. */
export function factor(epsilon) {
  if (epsilon > 13.8) return "more than a million";
  return number(Math.exp(epsilon), epsilon < 2.3 ? 2 : 0);
}

/** An answer that is an error; the sentence comes from the service and contains no data. */
class Refused extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `The service answered ${status}.`);
    this.status = status;
  }
}

/** Take the key of a link such as /#key=..., and remove it from the address at once. */
function takeKey() {
  const given = new URLSearchParams(location.hash.slice(1)).get("key");
  if (!given) return;
  sessionStorage.setItem(ITEM, given);
  history.replaceState(null, "", location.pathname);
}

/** Call a route with the key; the answer as an object. */
export async function call(path, { body, accepts = [] } = {}) {
  const headers = { authorization: `Bearer ${sessionStorage.getItem(ITEM) ?? ""}` };
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "omit",
      cache: "no-store",
    });
  } catch {
    throw new Error("The service does not answer.");
  }
  const document = await answer.json().catch(() => ({}));
  if (!answer.ok && !accepts.includes(answer.status)) throw new Refused(answer.status, document);
  return document;
}

export function problem(error) {
  const place = part("problem");
  place.hidden = !error;
  if (place.textContent !== (error?.message ?? "")) place.textContent = error?.message ?? "";
  if (error?.status === 401) enter();
}

/** Run what may fail; show its problem, or remove the last one. */
export async function attempt(work) {
  try {
    const value = await work();
    problem(null);
    return value;
  } catch (error) {
    problem(error);
    return undefined;
  }
}

/** Repeat while the tab is visible; each turn waits for the one before. */
export async function every(seconds, work) {
  for (;;) {
    if (!document.hidden && !part("view").hidden) await attempt(work);
    await new Promise((done) => setTimeout(done, 1000 * seconds));
  }
}

/** Make an element: text stays text, whatever it contains. */
export function element(name, { text, className, ...attributes } = {}, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** A table of rows of texts, numbers or elements; the first column heads its row. */
export function table(caption, columns, rows) {
  const head = columns.map(({ name, numeric }) =>
    element("th", { text: name, scope: "col", className: numeric ? "number" : "" }));
  const lines = rows.map((row) => element("tr", {}, ...row.map((cell, at) => {
    const made = element(at ? "td" : "th", { className: columns[at].numeric ? "number" : "" });
    if (!at) made.scope = "row";
    made.append(cell);
    return made;
  })));
  return element("table", {}, element("caption", { text: caption }),
    element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...lines));
}

/** Pairs of a name and a value for a description list. */
export function facts(place, pairs, wrapped = false) {
  place.replaceChildren(...pairs.flatMap(([name, value, className = ""]) => {
    const both = [element("dt", { text: name }), element("dd", { text: value, className })];
    return wrapped ? [element("div", {}, ...both)] : both;
  }));
}

/** A slider whose positions are the steps of a list; `change` gets the chosen one. */
export function slider(steps, chosen, change) {
  const input = part("epsilon");
  input.max = steps.length - 1;
  input.value = Math.max(0, steps.indexOf(chosen));
  const show = () => {
    const value = steps[input.value];
    part("epsilon-value").textContent = number(value, 2);
    input.setAttribute("aria-valuetext", `epsilon ${number(value, 2)}`);
    change(value);
  };
  input.addEventListener("input", show);
  show();
}

/** What is wider than its place can be moved by the keyboard, too. */
function reachable() {
  const fit = (place) => {
    if (place.scrollWidth > place.clientWidth) place.tabIndex = 0;
    else place.removeAttribute("tabindex");
  };
  const watch = new ResizeObserver((changes) => changes.forEach(({ target }) => fit(target)));
  const filled = new MutationObserver((changes) => changes.forEach(({ target }) => fit(target)));
  for (const place of document.querySelectorAll(".scroll")) {
    watch.observe(place);
    filled.observe(place, { childList: true });
  }
}

function enter() {
  sessionStorage.removeItem(ITEM);
  part("view").hidden = part("leave").hidden = part("generated").hidden = true;
  part("enter").hidden = false;
  part("key").value = "";
}

/** Ask for a key where there is none, then run a view with the overview of the service. */
export async function start(view) {
  takeKey();
  reachable();
  let begun = false;
  const open = async () => {
    const overview = await attempt(() => call("/overview"));
    if (!overview) return;
    part("enter").hidden = true;
    part("view").hidden = part("leave").hidden = false;
    part("generated").hidden = !overview.generated;
    if (!begun) {
      begun = true;
      await attempt(() => view(overview));
    }
  };
  part("leave").addEventListener("click", () => {
    problem(null);
    enter();
    part("key").focus();
  });
  part("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(ITEM, part("key").value.trim());
    open();
  });
  window.addEventListener("hashchange", () => {
    if (location.hash.startsWith("#key=")) {
      takeKey();
      open();
    }
  });
  if (sessionStorage.getItem(ITEM)) await open();
  else enter();
}
