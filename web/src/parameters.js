/** The parameters of a metric: read from JSON, held against their limits and their fingerprint. */

import { sha256 } from "@noble/hashes/sha2.js";
import { hex, join, u32be, utf8 } from "./bytes.js";
import { epsilonOne, epsilonPermanent } from "./epsilon.js";
import { chance, check, increasing, metricName, texts, whole } from "./limits.js";

const NAMES = new Set(
  "format version scheme metric bits hashes cohorts f p q categories edges fingerprint".split(" "),
);
const CHANGED =
  "that of these parameters: the parameters were changed; take the whole text from where it was made";

/**
 * @typedef {Readonly<{
 *   metric: string, bits: number, hashes: number, cohorts: number,
 *   f: number, p: number, q: number, flip: number, p16: number, q16: number,
 *   categories?: readonly string[], edges?: readonly number[],
 *   line: string, fingerprint: string, payloadBytes: number,
 *   epsilonPermanent: number, epsilonOne: number,
 * }>} Parameters
 */

/**
 * Parameters as Python's `Rappor.to_json` writes them. Chances run as multiples of 2 ** -16, and
 * both epsilons are computed from what runs.
 *
 * @param {string | object} json the text, or what JSON.parse made of it
 * @returns {Parameters}
 */
export function readParameters(json) {
  const given = parsed(json);
  check("format", given.format === "sfumato telemetry parameters", "that of parameters");
  check("version", given.version === 1, "1");
  check("scheme", given.scheme === "rappor", "rappor, the one scheme of this client");
  for (const name of Object.keys(given)) check(name, NAMES.has(name), "left out: it is no parameter");
  const shape = { ...numbers(given), ...domain(given), metric: metricName(given.metric) };
  const all = { ...shape, ...chances(shape) };
  const line = lineOf(all);
  const fingerprint = hex(sha256(utf8(line)).subarray(0, 8));
  check("fingerprint", given.fingerprint === fingerprint, CHANGED);
  return Object.freeze({
    ...all,
    line,
    fingerprint,
    payloadBytes: Math.ceil(shape.bits / 8),
    epsilonPermanent: epsilonPermanent(all),
    epsilonOne: epsilonOne(all),
  });
}

/** @param {string | object} json @returns {Record<string, any>} */
function parsed(json) {
  let given = null;
  try {
    given = typeof json === "string" ? JSON.parse(json) : json;
  } catch {
    // Said below: the parser's own sentence would quote the text.
  }
  check("parameters", given !== null && typeof given === "object", "a JSON object");
  return given;
}

/** @param {Record<string, any>} given */
function numbers({ bits, hashes, cohorts, f, p, q }) {
  whole("bits", bits, 1, 65536);
  whole("hashes", hashes, 1, Math.min(bits, 16));
  whole("cohorts", cohorts, 1, 65536);
  for (const [name, value] of Object.entries({ f, p, q })) chance(name, value);
  return { bits, hashes, cohorts, f, p, q };
}

/** @param {Record<string, any>} given */
function domain({ bits, hashes, cohorts, categories, edges }) {
  if (categories == null && edges == null) return {};
  check("edges", categories == null || edges == null, "left out where categories are given");
  check("hashes", hashes === 1, "1 where categories or edges are given");
  check("cohorts", cohorts === 1, "1 where categories or edges are given");
  if (categories != null) return { categories: texts("categories", categories, bits) };
  return { edges: increasing("edges", edges, bits + 1) };
}

/** Chances as whole numbers of 65536ths. */
function chances(/** @type {{f: number, p: number, q: number}} */ { f, p, q }) {
  const [flip, p16, q16] = [f / 2, p, q].map((chance) => Math.floor(chance * 65536 + 0.5));
  check("f", flip < 32768, "below 0.99998: nothing would be told");
  check("q", p16 < q16, "above p by at least 1 / 65536");
  return { flip, p16, q16 };
}

/** The one line of text that names everything that runs. */
function lineOf(/** @type {any} */ { bits, hashes, cohorts, flip, p16, q16, metric, ...domain }) {
  const numbers = [bits, hashes, cohorts, flip, p16, q16].join("/");
  return `sfumato/telemetry/1/rappor/${numbers}/${domainName(domain)}/${metric}`;
}

/** @param {{categories?: readonly string[], edges?: readonly number[]}} domain */
function domainName({ categories, edges }) {
  if (categories) {
    const parts = categories.map(utf8).flatMap((text) => [u32be(text.length), text]);
    return `categories:${hex(sha256(join(...parts)))}`;
  }
  if (!edges) return "-";
  const bytes = new DataView(new ArrayBuffer(8 * edges.length));
  edges.forEach((edge, at) => bytes.setFloat64(8 * at, edge));
  return `edges:${hex(sha256(new Uint8Array(bytes.buffer)))}`;
}
