/** Heat maps on a canvas: equal steps of density are equal steps of lightness. */

const STOPS = [[14, 26, 43], [22, 66, 91], [20, 116, 118], [88, 168, 110], [202, 205, 92], [255, 246, 190]];

function rgb(fraction) {
  const at = Math.min(1, Math.max(0, fraction)) * (STOPS.length - 1);
  const low = Math.min(STOPS.length - 2, Math.floor(at));
  return STOPS[low].map((from, i) => from + (STOPS[low + 1][i] - from) * (at - low));
}

/** Paint side x side values, row by row from below, on a scale from 0 to `largest`. */
export function heatmap(canvas, values, side, largest, label) {
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d");
  const image = context.createImageData(side, side);
  values.forEach((value, at) => {
    const row = side - 1 - Math.floor(at / side);
    const colours = rgb(value / largest);
    image.data.set([...colours, 255], 4 * (row * side + (at % side)));
  });
  context.putImageData(image, 0, 0);
  canvas.setAttribute("aria-label", label);
}

export function ramp(canvas) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  for (let at = 0; at < canvas.width * canvas.height; at++) {
    image.data.set([...rgb((at % canvas.width) / canvas.width), 255], 4 * at);
  }
  context.putImageData(image, 0, 0);
}
