/** Limits of parameters, and the sentence of a parameter that breaks one. */

/** @param {string} name @param {boolean} right @param {string} wanted @returns {void} */
export function check(name, right, wanted) {
  if (!right) throw new RangeError(`Parameters: ${name} must be ${wanted}.`);
}

/** @param {string} name @param {unknown} value @param {number} low @param {number} high */
export function whole(name, value, low, high) {
  const right = Number.isInteger(value) && Number(value) >= low && Number(value) <= high;
  check(name, right, `a whole number from ${low} to ${high}, not ${shown(value)}`);
}

/** @param {string} name @param {unknown} value */
export function chance(name, value) {
  const right = typeof value === "number" && value >= 0 && value <= 1;
  check(name, right, `a number from 0 to 1, not ${shown(value)}`);
}

/** @param {unknown} value @returns {string} a name that fits on one line */
export function metricName(value) {
  const right = typeof value === "string" && !/[\p{Cc}\p{Cs}]/u.test(value);
  check("metric", right, "text without control characters");
  const bytes = new TextEncoder().encode(String(value)).length;
  check("metric", bytes <= 200, `at most 200 bytes long, not ${bytes}`);
  return String(value);
}

/** @param {string} name @param {unknown} list @param {number} length */
export function texts(name, list, length) {
  const text = (/** @type {unknown} */ one) => typeof one === "string" && !/\p{Cs}/u.test(one);
  check(name, Array.isArray(list) && list.every(text), "a list of texts");
  return distinct(name, /** @type {string[]} */ (list), length);
}

/** @param {string} name @param {unknown} list @param {number} length */
export function increasing(name, list, length) {
  check(name, Array.isArray(list) && list.every(Number.isFinite), "a list of numbers");
  const edges = /** @type {number[]} */ (list);
  const rises = edges.every((edge, at) => at === 0 || edges[at - 1] < edge);
  check(name, rises, "in increasing order");
  return distinct(name, edges, length);
}

/** @template T @param {string} name @param {T[]} list @param {number} length */
function distinct(name, list, length) {
  check(name, list.length === length, `${length} in number for these bits, not ${list.length}`);
  check(name, new Set(list).size === length, "different from each other");
  return Object.freeze([...list]);
}

/** A refused parameter in few characters. */
const shown = (/** @type {unknown} */ value) => String(JSON.stringify(value)).slice(0, 40);
