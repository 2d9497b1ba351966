import { attempt, call, element, every, facts, number, part, start } from "./app.js";

let overview = null;
let shown = null; // the user whose list is shown
let turn = 0;
const signed = (value) => (value < 0 ? "\u2212" : "+") + Math.abs(value).toFixed(2);
const address = (...parts) => parts.map(encodeURIComponent).join("/");

/** One recommended item: its title, the parts of its score, and the user's own similar items. */
function row(item, reasons, best) {
  const bar = element("i");
  bar.style.setProperty("--share", `${100 * Math.exp(item.score - best)}%`);
  const names = reasons.because.map((each) => each.item);
  const because = names.length ? `Because of ${names.join(", ")}.` : "No single item explains it.";
  const parts = `Score ${signed(item.score)}: taste ${signed(reasons.affinity)}, ` +
    `popularity ${signed(reasons.popularity)}.`;
  const text = element("div", {}, element("strong", { text: item.item }),
    element("div", { className: "match", "aria-hidden": "true" }, bar),
    element("p", { className: "because", text: `${because} ${parts}` }));
  const line = element("li", {}, text);
  if (overview.generated) line.append(chosen(item.item));
  return line;
}

/** On generated data, a visitor may act for the user, and watch the model learn it. */
function chosen(item) {
  const label = `Choose ${item} for this user`;
  const button = element("button", { text: "Choose", type: "button", className: "quiet", "aria-label": label });
  button.addEventListener("click", () => attempt(async () => {
    button.disabled = true;
    await call("/events", { body: { user: shown, item } });
    await show(shown);
  }));
  return button;
}

async function show(user) {
  const mine = ++turn;
  const query = `n=${encodeURIComponent(part("number").value)}`;
  const list = await call(`/recommendations/${address(user)}?${query}`);
  const reasons = await Promise.all(list.items.map(({ item }) =>
    call(`/explain/${address(user, item)}?n=3`)));
  if (mine !== turn) return;
  shown = user;
  part("list").replaceChildren(...list.items.map((item, at) => row(item, reasons[at], list.items[0].score)));
  part("list-about").textContent = list.items.length
    ? `${list.items.length} items for ${user}, best first, without the user's own last items.` +
      (overview.generated ? " Choose one, and watch the list follow." : "")
    : "There is no model yet. It is learned from the first events.";
}

function model(row) {
  if (!row) {
    facts(part("model"), [["State", "no event yet"]]);
    return;
  }
  facts(part("model"), [
    ["Memory", `${number(row.nbytes / 2 ** 20, 1)} MiB`],
    ["Age", row.age_seconds < 120 ? `${number(row.age_seconds, 1)} s` : `${number(row.age_seconds / 60)} min`],
    ["Events learned", number(row.position)],
    ["Items", number(row.items)],
  ]);
}

start(async (found) => {
  overview = found;
  part("examples").replaceChildren(...found.examples.map((value) => element("option", { value })));
  part("example-buttons").append(...found.examples.slice(0, 6).map((user) => {
    const button = element("button", { text: user, type: "button", className: "quiet" });
    button.addEventListener("click", () => {
      part("user").value = user;
      attempt(() => show(user));
    });
    return button;
  }));
  part("who").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(() => show(part("user").value));
  });
  model(found.model);
  if (found.examples.length) {
    part("user").value = found.examples[0];
    await show(found.examples[0]);
  }
  every(2, async () => model((await call("/overview")).model));
});
