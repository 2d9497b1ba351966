import { attempt, call, element, every, factor, number, part, start, table } from "./app.js";
import { Telemetry, send } from "./sfumato-telemetry.js";

let metric = null; // of the overview
let client = null;
let report = null; // that the button sends
let shownRows = [];
const bitsOf = (bytes, count) => Array.from({ length: count }, (_, i) => (bytes[i >> 3] >> (i & 7)) & 1);
const bytesOf = (digits) => (digits.match(/../g) ?? []).map((pair) => parseInt(pair, 16));

/** An estimate and its interval, as a picture beside the numbers. */
function interval(row, largest) {
  const made = (name, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const at = (value) => (100 * Math.min(largest, Math.max(0, value))) / largest;
  const picture = made("svg", { class: row.detected ? "interval" : "interval faint", "aria-hidden": "true" });
  const [low, high] = [at(row.low), at(row.high)];
  picture.append(made("line", { class: "axis", x1: "0%", x2: "100%", y1: "50%", y2: "50%" }),
    made("rect", { class: "range", x: `${low}%`, width: `${Math.max(0.5, high - low)}%`, y: "25%", height: "50%", rx: 4 }),
    made("circle", { class: "dot", cx: `${at(row.estimate)}%`, cy: "50%", r: 4 }));
  return picture;
}

function decoded(answer) {
  const rows = answer.rows.filter((row) => row.estimate !== null);
  const largest = Math.max(1, ...rows.map((row) => row.high ?? 0));
  const lines = rows.map((row) => [row.value, interval(row, largest), number(row.estimate),
    `${number(Math.max(0, row.low))} to ${number(row.high)}`,
    element("span", { className: row.detected ? "badge" : "badge plain", text: row.detected ? "found" : "not sure" })]);
  const columns = [{ name: "Value" }, { name: "Estimate and 95 % interval" }, { name: "Clients", numeric: true },
    { name: "Interval", numeric: true }, { name: "Detected" }];
  part("decoded").replaceChildren(table("Estimated from noisy reports; nobody's value is known", columns, lines));
  const sentence = `${number(answer.reports)} reports. Whoever reads all reports of one client can change the ` +
    `odds between two values by a factor of at most ${factor(answer.epsilon)} (epsilon ${number(answer.epsilon, 2)}).`;
  if (part("decoded-about").textContent !== sentence) part("decoded-about").textContent = sentence;
  part("notes").replaceChildren(...answer.notes.map((text) => element("li", { text })));
  const values = rows.map((row) => row.value);
  if (values.join() !== shownRows.join()) {
    shownRows = values;
    part("candidates").replaceChildren(...values.map((value) => element("option", { value })));
  }
}

const refresh = async () => decoded(await call(`/telemetry/${encodeURIComponent(metric.name)}`));

function bits(place, list, about) {
  const cells = list.map((bit) => element("i", { className: bit ? "on" : "" }));
  part(place).replaceChildren(...cells);
  part(place).setAttribute("aria-label", `${about}: ${list.join("")}`);
}

/** Make the report of what is typed; nothing leaves before the button is used. */
function typed() {
  const value = part("value").value;
  const count = client.parameters.bits;
  const own = new Array(count).fill(0);
  for (const cell of client.cells(value)) own[cell] = 1;
  report = client.encode(value);
  bits("bits-value", own, "Bits of the value");
  bits("bits-permanent", bitsOf(client.permanent(value), count), "Permanent response");
  bits("bits-report", bitsOf(bytesOf(report.bits), count), "The report");
  part("line").textContent = JSON.stringify(report);
}

function choose(row) {
  metric = row;
  try {
    client = new Telemetry(row.parameters);
  } catch (error) {
    client = null;
    part("box-about").textContent = error.message;
  }
  part("box").hidden = !client;
  part("send").disabled = !row.public_key;
  if (!client) return;
  const { epsilonOne, epsilonPermanent } = client.parameters;
  part("box-about").textContent = `One report changes the odds between two values by a factor of at most ` +
    `${factor(epsilonOne)} (epsilon ${epsilonOne.toFixed(2)}), all reports of your value together by ` +
    `${factor(epsilonPermanent)} (epsilon ${epsilonPermanent.toFixed(2)}). ` + (row.public_key ? ""
      : "Sending needs public_key in the settings of the metric.");
  typed();
}

async function submit() {
  const sent = report;
  await send(`/reports?key=${encodeURIComponent(metric.public_key)}`, sent);
  part("sent").textContent = `Sent ${sent.bits.length / 2} bytes of noisy bits. The service cannot read your value from them.`;
  typed();
  await refresh();
}

start(async (overview) => {
  part("none").hidden = overview.metrics.length > 0;
  part("some").hidden = !overview.metrics.length;
  if (!overview.metrics.length) return;
  part("bits-report").classList.add("leaves");
  part("metric").append(...overview.metrics.map(({ name }) => element("option", { text: name, value: name })));
  part("metric").addEventListener("change", () => {
    choose(overview.metrics[part("metric").selectedIndex]);
    attempt(refresh);
  });
  part("value").addEventListener("input", typed);
  part("box").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(submit);
  });
  choose(overview.metrics[0]);
  every(2, refresh);
});
