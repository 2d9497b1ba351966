import { attempt, call, element, every, number, part, start, table } from "./app.js";

let shown = "";
const when = (text) => text.slice(0, 19).replace("T", " ");

function budget(row) {
  const left = Math.max(0, row.remaining_epsilon);
  const share = row.epsilon ? Math.min(1, left / row.epsilon) : 0;
  const bar = element("i");
  bar.style.setProperty("--share", `${100 * share}%`);
  const gauge = element("div", { className: share < 0.25 ? "gauge low" : "gauge", "aria-hidden": "true" }, bar);
  const delta = row.delta ? ` and delta ${row.delta.toExponential(0)}` : "";
  return element("section", { className: "card", "aria-label": `Data set ${row.dataset}` },
    element("h3", { text: row.dataset }),
    element("p", { className: "big", text: `${number(left, 2)} of ${number(row.epsilon, 2)} left` }), gauge,
    element("p", { className: "soft", text: `Spent epsilon ${number(row.spent_epsilon, 3)} of ${number(row.epsilon, 3)}${delta}, ` +
      `for each ${row.unit}, ${row.relation}.` }));
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
  return [each.release, each.what, each.dataset ?? "", `${number(each.nbytes)} bytes`, button];
}

async function refresh() {
  const [ledger, { releases }] = await Promise.all([call("/budget"), call("/releases")]);
  const now = JSON.stringify([ledger, releases]);
  if (now === shown) return;
  shown = now;
  const none = element("p", { className: "card", text: "The ledger has no data set: nothing can be released." });
  part("budgets").replaceChildren(...(ledger.budgets.length ? ledger.budgets.map(budget) : [none]));
  const columns = ["Release", "What", "Data set", "Size", "Guarantee"].map((name) => ({ name, numeric: name === "Size" }));
  part("releases").replaceChildren(releases.length
    ? table("What has left, as stored bytes", columns, releases.map(releaseRow))
    : element("p", { className: "soft", text: "Nothing has been released." }));
  const charges = ledger.charges.map((each) => [each.release, each.dataset, each.what, when(each.time)]);
  part("ledger").replaceChildren(charges.length
    ? table("Charges in their order", ["Release", "Data set", "What", "Charged, UTC"].map((name) => ({ name })), charges)
    : element("p", { className: "soft", text: "There is no charge." }));
}

start(() => every(5, refresh));
