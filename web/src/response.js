/** The two lies: one per value for ever, from the client's key; one fresh for every report. */

import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { below } from "./below.js";
import { join, u32be, utf8 } from "./bytes.js";

/** @typedef {import("./parameters.js").Parameters} Parameters */

const CLIENT = utf8("sfumato/client/1\0");
const COHORT = utf8("cohort");
const PERMANENT = utf8("permanent");

/** The key of one client for one parameter set: another metric has another key. */
export function clientKey(/** @type {Uint8Array} */ secret, /** @type {string} */ line) {
  return hmac(sha256, secret, join(CLIENT, utf8(line)));
}

/** The cohort that the key falls into, each equally likely. */
export function cohortOf(/** @type {Uint8Array} */ key, /** @type {number} */ cohorts) {
  const block = (/** @type {number} */ t) => hmac(sha256, key, join(COHORT, u32be(t)));
  return below(cohorts, block).next().value;
}

/**
 * The cells as bits, each flipped with chance flip / 65536 by the key and the value.
 *
 * @param {Uint8Array} key
 * @param {Parameters} parameters
 * @param {{bytes: Uint8Array, cells: number[]}} placed
 * @returns {Uint8Array} cell i is bit i & 7 of byte i >> 3
 */
export function permanent(key, { bits, flip, payloadBytes }, { bytes, cells }) {
  const payload = new Uint8Array(payloadBytes);
  for (const cell of cells) payload[cell >> 3] |= 1 << (cell & 7);
  for (let cell = 0; cell < bits;) {
    const block = hmac(sha256, key, join(PERMANENT, u32be(cell / 16), bytes));
    for (let at = 0; at < block.length && cell < bits; at += 2, cell++) {
      if (((block[at] << 8) | block[at + 1]) < flip) payload[cell >> 3] ^= 1 << (cell & 7);
    }
  }
  return payload;
}

/**
 * Bits to send: one with chance q where the permanent bit is one, and with chance p elsewhere.
 *
 * @param {Parameters} parameters
 * @param {Uint8Array} payload
 * @returns {Uint8Array}
 */
export function instant({ bits, p16, q16 }, payload) {
  const draws = fresh(2 * bits);
  const sent = new Uint8Array(payload.length);
  for (let cell = 0; cell < bits; cell++) {
    const draw = (draws[2 * cell] << 8) | draws[2 * cell + 1];
    const chance = (payload[cell >> 3] >> (cell & 7)) & 1 ? q16 : p16;
    if (draw < chance) sent[cell >> 3] |= 1 << (cell & 7);
  }
  return sent;
}

/** @param {number} length @returns {Uint8Array} bytes that nobody can foresee */
export function fresh(length) {
  const bytes = new Uint8Array(length);
  // The browser gives 65536 bytes a call at most.
  for (let at = 0; at < length; at += 65536) crypto.getRandomValues(bytes.subarray(at, at + 65536));
  return bytes;
}
