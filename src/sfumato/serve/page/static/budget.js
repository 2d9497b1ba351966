import { attempt, call, element, every, number, part, start, table } from "./app.js";

let shown = "";
// What a release is, by the class that its line begins with.
const KINDS = {
  ReleasedPopular: "Popularity of items", ReleasedNeighbours: "Similar items",
  ReleasedKernelGrid: "Map of a density", ReleasedAdaptiveGrid: "Map of a density", ReleasedKernelSlices: "Map of a density",
  ReleasedKernelFourier: "Map of a density", ReleasedRace: "Map of a density",
  ReleasedCountMin: "Counts of keys", ReleasedCountSketch: "Counts of keys", ReleasedHyperLogLog: "Number of distinct keys",
  "running total of keys of the sketch": "Running total of keys",
};
const when = (text) => text.slice(0, 19).replace("T", " ");

/** In plain words what a release is, and the mechanism for those who want it. */
function what(text) {
  const kind = KINDS[text.split(/[:,]/)[0]] ?? (text.startsWith("Released") ? "Another private release" : null);
  if (!kind) return text;
  return element("div", {}, kind, element("details", {}, element("summary", { text: "mechanism" }),
    element("p", { className: "soft", text })));
}

function budget(row) {
  const left = Math.max(0, row.remaining_epsilon);
  const share = row.epsilon ? Math.min(1, left / row.epsilon) : 0;
  const bar = element("i");
  bar.style.setProperty("--share", `${100 * share}%`);
  const gauge = element("div", { className: share < 0.25 ? "gauge low" : "gauge", "aria-hidden": "true" }, bar);
  return element("section", { className: "card", "aria-label": `Data set ${row.dataset}` },
    element("h3", { text: row.dataset }),
    element("p", { className: "big", text: `${number(left, 2)} of ${number(row.epsilon, 2)} left` }), gauge,
    element("p", { className: "soft", text: `Epsilon ${number(row.spent_epsilon, 3)} is spent. Each ${row.unit} is protected: ` +
      (row.relation === "replace" ? "what it contains" : "whether it is there at all") + ` (${row.relation})` +
      (row.delta ? `, except with a probability of ${row.delta.toExponential(0)} (delta).` : ".") }));
}

async function statement(release) {
  const answer = await call(`/statements/${encodeURIComponent(release)}`);
  part("statement").hidden = false;
  part("statement").replaceChildren(element("strong", { text: `${release}\n` }), answer.text);
  part("statement").focus();
}

function releaseRow(each) {
  const button = element("button", { text: "Statement", type: "button", className: "quiet",
    "aria-label": `Statement of ${each.release}` });
  button.addEventListener("click", () => attempt(() => statement(each.release)));
  return [each.release, button, what(each.what), each.dataset ?? "", `${number(each.nbytes)} bytes`];
}

async function refresh() {
  const [ledger, { releases }] = await Promise.all([call("/budget"), call("/releases")]);
  const now = JSON.stringify([ledger, releases]);
  if (now === shown) return;
  shown = now;
  const none = element("p", { className: "card", text: "The ledger has no data set: nothing can be released." });
  part("budgets").replaceChildren(...(ledger.budgets.length ? ledger.budgets.map(budget) : [none]));
  const columns = ["Release", "Guarantee", "What", "Data set", "Size"].map((name) => ({ name, numeric: name === "Size" }));
  part("releases").replaceChildren(releases.length
    ? table("A repeated request gets the stored bytes, never fresh noise", columns, releases.map(releaseRow))
    : element("p", { className: "soft", text: "Nothing has been released." }));
  const charges = ledger.charges.map((each) => [when(each.time), each.release, each.dataset, what(each.what)]);
  part("ledger").replaceChildren(charges.length
    ? table("Charges, the oldest first", ["Charged, UTC", "Release", "Data set", "What"].map((name) => ({ name })), charges)
    : element("p", { className: "soft", text: "There is no charge." }));
}

start(() => every(5, refresh));
