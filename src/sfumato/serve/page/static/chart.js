/** Line charts by uPlot in the colours of the page; each is redrawn when those change. */

const dark = matchMedia("(prefers-color-scheme: dark)");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const FONT = "12px system-ui, sans-serif";
export const clock = (seconds) => new Date(1000 * seconds).toLocaleTimeString("en-GB");

/**
 * Draw lines into a place; the function returned shows other data.
 * Series are {label, colour (a variable's name), value (a format), dash}. `rest` gives the index
 * whose values the legend shows while no pointer is over the chart.
 */
export function chart(place, { series, label, time = false, axis, mark, rest, height = 240, least = 1 }) {
  let drawn = null;
  let data = null;
  const scale = () => ({ width: Math.max(200, place.clientWidth), height });
  const settle = (plot) => {
    if (rest && plot.legend.idx == null) plot.setLegend({ idx: rest(data) }, false);
  };
  const make = () => {
    drawn?.destroy();
    const grid = { stroke: colour("--line"), width: 1 };
    const common = { stroke: colour("--soft"), font: FONT, grid, ticks: grid };
    drawn = new uPlot({
      ...scale(),
      cursor: { points: { size: 6 }, drag: { x: false, y: false } },
      scales: { x: { time }, y: { range: (_, low, high) => [0, Math.max(least, high * 1.05)] } },
      axes: [{ ...common, label: axis, labelFont: FONT, labelSize: axis ? 20 : 0, space: time ? 80 : 50,
        values: time ? (_, ticks) => ticks.map(clock) : undefined },
        { ...common, size: width, values: series[0].ticks && ((_, ticks) => ticks.map(series[0].ticks)) }],
      series: [{ label: label ?? "", value: (_, value) => (value == null ? "" : time ? clock(value) : value) },
        ...series.map((each) => ({
          label: each.label,
          stroke: colour(each.colour),
          width: 2,
          dash: each.dash,
          points: { show: false },
          value: (_, value) => (value == null ? "" : each.value(value)),
        }))],
      hooks: { draw: [(plot) => mark && line(plot, mark())], setLegend: [settle] },
    }, data, place);
    settle(drawn);
  };
  dark.addEventListener("change", () => data && make());
  new ResizeObserver(() => drawn?.setSize(scale())).observe(place);
  return (columns) => {
    data = columns;
    if (!drawn) return make();
    drawn.setData(data);
    if (!place.matches(":hover")) drawn.setLegend({ idx: null });
  };
}

/** How wide an axis must be for its longest label, in pixels. */
function width(_, labels) {
  return Math.max(54, 20 + 7 * Math.max(0, ...(labels ?? []).map((each) => String(each).length)));
}

/** A vertical line at a value of the x axis. */
function line(plot, value) {
  const { ctx, bbox } = plot;
  const x = Math.round(plot.valToPos(value, "x", true));
  ctx.save();
  ctx.strokeStyle = colour("--ink");
  ctx.setLineDash([4, 4]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}
