/**
 * Which cells a value owns: Bloom cells of a text, or the one cell of a category or a bin.
 *
 * No value throws, as a report that fails to come would tell of it. What is none is an empty text;
 * what is no category, or no number where there are edges, owns no cell.
 */

import { sha256 } from "@noble/hashes/sha2.js";
import { below } from "./below.js";
import { join, u32be, utf8 } from "./bytes.js";

/** @typedef {import("./parameters.js").Parameters} Parameters */

const BLOOM = utf8("sfumato/bloom/1\0");
const LEAST = -(2n ** 63n);
const MOST = 2n ** 64n - 1n;
const NUMBER = /^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$/;

/**
 * The value as the bytes that are hashed, and its cells in increasing order.
 *
 * @param {Parameters} parameters
 * @param {number} cohort
 * @param {unknown} value
 * @returns {{bytes: Uint8Array, cells: number[]}}
 */
export function place(parameters, cohort, value) {
  if (parameters.edges) {
    const bin = binOf(parameters.edges, numberOf(value));
    return bin === undefined ? owned("") : owned(String(bin), bin);
  }
  const text = textOf(value);
  if (parameters.categories) return ofCategories(parameters.categories, text);
  const bytes = utf8(text);
  return { bytes, cells: bloom(parameters, cohort, bytes) };
}

/** @param {string} text @param {...number} cells */
const owned = (text, ...cells) => ({ bytes: utf8(text), cells });

/** @param {readonly string[]} categories @param {string} text */
function ofCategories(categories, text) {
  const known = categories.includes(text) ? text : "";
  return categories.includes(known) ? owned(known, categories.indexOf(known)) : owned("");
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
  if (typeof value === "bigint") return LEAST <= value && value <= MOST ? String(value) : "";
  // Half a surrogate pair has no UTF-8: replacing it would report another value.
  return typeof value === "string" && !/\p{Cs}/u.test(value) ? value : "";
}

/** @param {unknown} value a number, also as text; NaN for anything else */
function numberOf(value) {
  if (typeof value === "number") return value;
  const written = typeof value === "string" && NUMBER.test(value);
  return written || typeof value === "bigint" ? Number(value) : NaN;
}

/** Bins hold their lower edge; what lies outside goes to the first or the last one. */
function binOf(/** @type {readonly number[]} */ edges, /** @type {number} */ value) {
  if (Number.isNaN(value)) return undefined;
  const above = edges.findIndex((edge) => value < edge);
  const bin = (above < 0 ? edges.length : above) - 1;
  return Math.min(Math.max(bin, 0), edges.length - 2);
}
