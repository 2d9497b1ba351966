import { call, every, facts, number, part, start, table } from "./app.js";
import { chart, clock } from "./chart.js";

const ROWS = 8; // samples of the table
const one = (value) => number(value, 1);
const last = (column) => column.at(-1) ?? 0;
const mean = (column) => {
  const known = column.slice(-30).filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : 0;
};

function now(history, ready) {
  const good = ready.status === "ready";
  const errors = mean(history.failed);
  facts(part("now"), [
    ["State", ready.status ?? "unknown", good ? "good" : "bad"],
    ["Requests per second", one(mean(history.requests))],
    ["Events per second", one(mean(history.events))],
    ["Events to learn", number(ready.lag ?? 0)],
    ["Mean answer", `${one(mean(history.milliseconds))} ms`],
    ["Failures per second", one(errors), errors ? "bad" : ""],
  ], true);
  const state = `The service is ${ready.status}.`;
  if (part("summary").textContent !== state) part("summary").textContent = state;
}

function samples(history) {
  const names = { requests: "Requests/s", events: "Events/s", reports: "Reports/s", lag: "Lag", refused: "Refused/s",
    failed: "Failed/s", milliseconds: "Mean ms" };
  const rows = history.time.slice(-ROWS).map((time, at, all) => {
    const index = history.time.length - all.length + at;
    return [clock(time),
      ...Object.keys(names).map((name) => history[name][index] === null ? "" : one(history[name][index]))];
  });
  const columns = [{ name: "Time" }, ...Object.values(names).map((name) => ({ name, numeric: true }))];
  part("samples").replaceChildren(table("One line per second, the newest last", columns, rows.slice(-ROWS)));
}

start(() => {
  const draw = (id, series, height, least) => chart(part(id), { label: "at", time: true, height, series, least,
    rest: ([times]) => times.length - 1 });
  const throughput = draw("throughput", [
    { label: "requests", colour: "--accent", value: one },
    { label: "events", colour: "--third", value: one },
    { label: "reports", colour: "--warn", value: one },
  ], 240, 5);
  const lag = draw("lag", [{ label: "events", colour: "--third", value: one }], 200, 10);
  const errors = draw("errors", [
    { label: "refused (4xx)", colour: "--warn", value: one },
    { label: "failed (5xx)", colour: "--bad", value: one },
  ], 200, 1);
  return every(2, async () => {
    const ready = await call("/readyz", { accepts: [503] });
    const history = await call("/metrics/history");
    now(history, ready);
    throughput([history.time, history.requests, history.events, history.reports]);
    lag([history.time, history.lag]);
    errors([history.time, history.refused, history.failed]);
    samples(history);
  });
});
