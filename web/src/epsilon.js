/** What a parameter set gives away at most, from the chances that run, to 15 digits. */

/** @typedef {{hashes: number, flip: number, p16: number, q16: number}} Chances */

/**
 * All reports of one value under one secret: 2 h ln((1 - f/2) / (f/2)).
 * Erlingsson, Pihur and Korolova 2014, Theorem 1.
 */
export function epsilonPermanent(/** @type {Chances} */ { hashes, flip }) {
  return 2 * hashes * Math.log((65536 - flip) / flip);
}

/**
 * One report: h ln(q* (1 - p*) / (p* (1 - q*))), with q* and p* the chances of a one in the report
 * where the value has, and has not, its bit. Erlingsson, Pihur and Korolova 2014, Theorem 2.
 */
export function epsilonOne(/** @type {Chances} */ { hashes, flip, p16, q16 }) {
  // Products of 16-bit numbers, so all four terms are exact.
  const high = (65536 - flip) * q16 + flip * p16;
  const low = flip * q16 + (65536 - flip) * p16;
  return hashes * (Math.log(high / low) + Math.log((2 ** 32 - low) / (2 ** 32 - high)));
}
