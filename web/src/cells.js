/** Which cells a value owns: Bloom cells of a text, or the one cell of a category or a bin. */

import { sha256 } from "@noble/hashes/sha2.js";
import { below } from "./below.js";
import { join, u32be, utf8 } from "./bytes.js";

/** @typedef {import("./parameters.js").Parameters} Parameters */

const BLOOM = utf8("sfumato/bloom/1\0");

/**
 * The value as the bytes that are hashed, and its cells in increasing order.
 *
 * @param {Parameters} parameters
 * @param {number} cohort
 * @param {string | number} value
 * @returns {{bytes: Uint8Array, cells: number[]}}
 */
export function place(parameters, cohort, value) {
  if (parameters.edges) {
    const bin = binOf(parameters.edges, value);
    return { bytes: utf8(String(bin)), cells: [bin] };
  }
  const text = textOf(value);
  const bytes = utf8(text);
  if (parameters.categories) return { bytes, cells: [categoryOf(parameters.categories, text)] };
  return { bytes, cells: bloom(parameters, cohort, bytes) };
}

/** @param {Parameters} parameters @param {number} cohort @param {Uint8Array} bytes */
function bloom({ bits, hashes }, cohort, bytes) {
  const cells = new Set();
  const block = (/** @type {number} */ t) => sha256(join(BLOOM, u32be(cohort), u32be(t), bytes));
  for (const cell of below(bits, block)) {
    cells.add(cell);
    if (cells.size === hashes) break;
  }
  return [...cells].sort((one, other) => one - other);
}

/** @param {unknown} value @returns {string} */
function textOf(value) {
  if (Number.isSafeInteger(value)) return String(value);
  // Half a surrogate pair has no UTF-8: replacing it would report another value.
  if (typeof value === "string" && !/\p{Cs}/u.test(value)) return value;
  const found = typeof value === "string" ? "text with half a surrogate pair" : kind(value);
  throw new TypeError(`Telemetry: a value must be text or a safe integer, not ${found}.`);
}

/** @param {readonly string[]} categories @param {string} text */
function categoryOf(categories, text) {
  const cell = categories.indexOf(text);
  if (cell >= 0) return cell;
  throw new RangeError(
    "Telemetry: a value must be one of the categories; make one of them stand for all others.",
  );
}

/** Bins hold their lower edge; what lies outside goes to the first or the last one. */
function binOf(/** @type {readonly number[]} */ edges, /** @type {unknown} */ value) {
  if (typeof value !== "number" || Number.isNaN(value)) {
    throw new TypeError(`Telemetry: a value must be a number, not ${kind(value)}.`);
  }
  const above = edges.findIndex((edge) => value < edge);
  const bin = (above < 0 ? edges.length : above) - 1;
  return Math.min(Math.max(bin, 0), edges.length - 2);
}

/** What a refused value is, in words that say nothing of it. */
function kind(/** @type {unknown} */ value) {
  if (value === null) return "null";
  if (typeof value !== "number") return typeof value;
  return Number.isNaN(value) ? "NaN" : "a number with a fraction or past 2 ** 53";
}
