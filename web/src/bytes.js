/** Bytes and the three things we write as bytes: text, whole numbers and hex. */

const encoder = new TextEncoder();

/** @param {string} text @returns {Uint8Array} its UTF-8 */
export const utf8 = (text) => encoder.encode(text);

/** @param {number} number below 2 ** 32 @returns {Uint8Array} four bytes, the highest first */
export function u32be(number) {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, number);
  return bytes;
}

/** @param {...Uint8Array} parts @returns {Uint8Array} all parts in a row */
export function join(...parts) {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** @param {Uint8Array} bytes @returns {string} two lower-case digits a byte */
export const hex = (bytes) =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** @param {string} digits an even number of hex digits @returns {Uint8Array} */
export const unhex = (digits) =>
  Uint8Array.from(digits.match(/../g) ?? [], (pair) => parseInt(pair, 16));
