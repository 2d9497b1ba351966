import { attempt, call, element, facts, factor, number, part, slider, start, table } from "./app.js";
import { heatmap, ramp } from "./heatmap.js";

const SIDE = 40;
const COARSE = 5; // rows and columns of the table
let turn = 0;

/** Mean of each block of cells, as a multiple of the mean of all, from above. */
function blocks(values, side) {
  const step = side / COARSE;
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const sums = Array.from({ length: COARSE }, () => new Array(COARSE).fill(0));
  values.forEach((value, at) => {
    sums[COARSE - 1 - Math.floor(Math.floor(at / side) / step)][Math.floor((at % side) / step)] += value;
  });
  return sums.map((row) => row.map((sum) => sum / step / step / mean));
}

function pair(answer) {
  const largest = Math.max(...answer.exact);
  part("sentence").textContent = `${answer.sentence} Whether any one point is there changes the odds of ` +
    `what is seen by a factor of at most ${factor(answer.epsilon)}.`;
  part("private-badge").textContent = answer.statement;
  const about = `${answer.points} generated points from ${answer.low} to ${answer.high} in both columns`;
  heatmap(part("exact"), answer.exact, answer.side, largest, `Exact density of ${about}`);
  heatmap(part("private"), answer.private, answer.side, largest, `Private density, ${answer.statement}, of ${about}`);
  const [exact, released] = [blocks(answer.exact, answer.side), blocks(answer.private, answer.side)];
  const columns = [{ name: "from above" }, ...Array.from({ length: COARSE }, (_, i) =>
    ({ name: `column ${i + 1}`, numeric: true }))];
  part("pair-table").replaceChildren(table("Exact / private density of 25 squares; 1 is the mean", columns,
    exact.map((row, at) => [`row ${at + 1}`, ...row.map((value, i) =>
      `${number(value, 1)} / ${number(released[at][i], 1)}`)])));
}

async function choose(epsilon) {
  const mine = ++turn;
  const answer = await call(`/lab/density?epsilon=${epsilon}`);
  if (mine === turn) pair(answer);
}

/** A density of the settings: its private file answers any point within its public limits. */
async function own(density) {
  const centre = (axis, at) =>
    density.low[axis] + ((at + 0.5) / SIDE) * (density.high[axis] - density.low[axis]);
  const points = Array.from({ length: SIDE * SIDE }, (_, at) =>
    [centre(0, at % SIDE), centre(1, Math.floor(at / SIDE))]);
  const path = `/density/${encodeURIComponent(density.name)}/query`;
  const answer = await call(path, { body: { points } });
  part("own").hidden = false;
  heatmap(part("own"), answer.densities, SIDE, Math.max(...answer.densities),
    `Density ${density.name}, ${answer.statement}`);
  part("own-about").textContent = `Only the private release of ${density.name} is in this service. It was paid for ` +
    `once: these ${number(points.length)} answers, and any others, cost nothing more.`;
  const span = (axis) => `${number(density.low[axis], 2)} to ${number(density.high[axis], 2)}`;
  facts(part("own-facts"), [["Guarantee", answer.statement], ["Left to right", span(0)], ["Bottom to top", span(1)]]);
}

start(async ({ densities }) => {
  ramp(part("ramp"));
  const first = await call("/lab/density?epsilon=0.1");
  slider(first.epsilons, first.epsilon, (epsilon) => attempt(() => choose(epsilon)));
  part("own-field").hidden = !densities.length;
  if (!densities.length) {
    part("own-about").textContent = "The settings of this service name no density of two columns.";
    return;
  }
  part("density").append(...densities.map(({ name }) => element("option", { text: name, value: name })));
  part("density").addEventListener("change", () =>
    attempt(() => own(densities[part("density").selectedIndex])));
  await own(densities[0]);
});
