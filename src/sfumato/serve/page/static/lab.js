import { attempt, call, element, factor, part, percent, slider, start, table } from "./app.js";
import { chart } from "./chart.js";

let chosen = 1;
let turn = 0;
const KINDS = { found: "read, and named", "hidden-one": "read, still hidden", wrong: "wrongly named" };

function kind({ present, claimed }) {
  if (present) return claimed ? "found" : "hidden-one";
  return claimed ? "wrong" : "";
}

function names(place, items) {
  part(place).replaceChildren(...items.map(({ title }) => element("li", { text: title })));
  part(`${place}-number`).textContent = items.length;
}

function show(answer) {
  part("sentence").textContent = answer.sentence;
  part("guarantee").textContent = `What is proved: whatever an attacker knows, the release changes the odds ` +
    `that any one title was read by a factor of at most ${factor(answer.epsilon)} (${answer.statement}). ` +
    `For all ${answer.size} titles together it is epsilon ${answer.profile_epsilon.toFixed(0)}` +
    (answer.profile_epsilon > 10 ? ", which guarantees next to nothing." : ".");
  part("mosaic").replaceChildren(...answer.items.map((item) => {
    const name = kind(item);
    const about = `${item.title}: ${KINDS[name] ?? "not read, not named"}; the attacker gives it ${percent(item.probability)}`;
    return element("i", { className: name, title: about });
  }));
  names("found", answer.items.filter((item) => kind(item) === "found"));
  names("missed", answer.items.filter((item) => kind(item) === "hidden-one"));
  names("wrong", answer.items.filter((item) => kind(item) === "wrong"));
}

async function choose(epsilon) {
  chosen = epsilon;
  const mine = ++turn;
  const answer = await call(`/lab?epsilon=${epsilon}`);
  if (mine === turn) show(answer);
}

function curve(found, draw) {
  const column = (name) => found.steps.map((step) => step[name]);
  const data = [column("epsilon"), column("rebuilt"), column("neighbours"), column("guessed")];
  part("curve-about").textContent = `Means of ${found.profiles} generated readers. Red is the harm: how much of ` +
    "a profile the attacker names. Green is the use: how many of the most similar readers can still be " +
    "found. The dashed line is what guessing popular titles gives without any release.";
  const columns = ["epsilon", "profile rebuilt", "similar readers found", "by popularity alone"];
  const rows = found.steps.map((step) => [String(step.epsilon), percent(step.rebuilt),
    percent(step.neighbours), percent(step.guessed)]);
  part("curve-table").replaceChildren(table("Fractions by epsilon",
    columns.map((name) => ({ name, numeric: true })), rows));
  draw(data);
  return () => draw(data);
}

start(async () => {
  const first = await call(`/lab?epsilon=${chosen}`);
  const draw = chart(part("curve"), {
    label: "epsilon", axis: "epsilon of each item", mark: () => chosen,
    rest: ([epsilons]) => epsilons.indexOf(chosen),
    series: [
      { label: "profile rebuilt", colour: "--bad", value: percent, ticks: percent },
      { label: "similar readers found", colour: "--accent", value: percent },
      { label: "by popularity alone", colour: "--soft", value: percent, dash: [5, 5] },
    ],
  });
  let redraw = () => {};
  slider(first.epsilons, first.epsilon, (epsilon) => {
    redraw();
    attempt(() => choose(epsilon)).then(() => redraw());
  });
  redraw = curve(await call("/lab/curve"), draw);
});
