/** Whole numbers below a limit, each equally likely, from an endless row of hash blocks. */

/**
 * A word that would favour the small remainders is skipped, so any limit is free of bias.
 *
 * @param {number} limit from 1 to 2 ** 32
 * @param {(t: number) => Uint8Array} block block t of the row, its length a multiple of four
 * @returns {Generator<number, never>}
 */
export function* below(limit, block) {
  const fair = 2 ** 32 - (2 ** 32 % limit);
  for (let t = 0; ; t++) {
    const bytes = block(t);
    const words = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    for (let at = 0; at < bytes.length; at += 4) {
      const word = words.getUint32(at);
      if (word < fair) yield word % limit;
    }
  }
}
