/** One client of one metric: values go in, reports come out, and only reports may leave. */

import { hex } from "./bytes.js";
import { place } from "./cells.js";
import { readParameters } from "./parameters.js";
import { clientKey, cohortOf, fresh, instant, permanent } from "./response.js";
import { storedSecret } from "./secret.js";

/** @typedef {{v: 1, params: string, cohort: number, bits: string, id: string}} Report */

/**
 * Reports about a value, each with the privacy that its parameters state.
 *
 * One report is `parameters.epsilonOne` private; all reports of one value together are
 * `parameters.epsilonPermanent` private, as long as the secret stays. Another value, a cleared
 * storage or other parameters add up.
 *
 * @example
 * const client = new Telemetry(parametersOfTheServer);
 * await send("/telemetry", client.encode("oranges"));
 */
export class Telemetry {
  #key;

  /**
   * @param {string | object} parameters the JSON that Python's `Rappor.to_json` wrote
   * @param {{secret?: Uint8Array, storage?: Storage | null}} [options] the secret, at least 16
   *   bytes; or the storage that keeps one, localStorage if neither is given
   */
  constructor(parameters, { secret, storage } = {}) {
    this.parameters = readParameters(parameters);
    if (secret !== undefined && !(secret instanceof Uint8Array && secret.length >= 16)) {
      throw new TypeError("Telemetry: secret must be a Uint8Array of at least 16 bytes.");
    }
    this.#key = clientKey(secret ?? storedSecret(storage), this.parameters.line);
    /** The part of all clients to which this one belongs; the same for ever. */
    this.cohort = cohortOf(this.#key, this.parameters.cohorts);
  }

  /** The cells of a value before any lie, for pictures: they must not leave. */
  cells(/** @type {unknown} */ value) {
    return place(this.parameters, this.cohort, value).cells;
  }

  /** The permanent response to a value: the same bytes for ever. */
  permanent(/** @type {unknown} */ value) {
    return permanent(this.#key, this.parameters, place(this.parameters, this.cohort, value));
  }

  /**
   * A report of a value, with fresh randomness and a random id. No value throws: what is none, as
   * null or a fraction, is reported as an empty text, or as no category and no number.
   *
   * @param {unknown} value text or an integer; a number where parameters have edges
   * @returns {Report}
   */
  encode(value) {
    const sent = instant(this.parameters, this.permanent(value));
    const { fingerprint: params } = this.parameters;
    return { v: 1, params, cohort: this.cohort, bits: hex(sent), id: hex(fresh(16)) };
  }
}
