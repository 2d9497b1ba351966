/** The client's secret: made once, kept in the site's storage, never sent. */

import { hex, unhex } from "./bytes.js";
import { fresh } from "./response.js";

/** The name of the one item we keep. */
export const ITEM = "sfumato.telemetry.secret";

const REMEDY =
  "A new secret at every visit would add up the privacy loss, so nothing is reported. " +
  "Pass { secret } with at least 16 bytes that you keep, or { storage } that lasts.";

/**
 * The secret of this site in this browser, made at the first call.
 *
 * @param {Storage | null | undefined} storage where to look; undefined for localStorage
 * @returns {Uint8Array} 32 bytes
 */
export function storedSecret(storage) {
  const held = kept(storage);
  if (/^[0-9a-f]{64}$/.test(held)) return unhex(held);
  throw new Error(`Telemetry: the item ${ITEM} is not 64 hex digits. Remove it to begin anew.`);
}

/** @param {Storage | null | undefined} storage @returns {string} what the storage holds for us */
function kept(storage) {
  let held = null;
  try {
    const place = storage === undefined ? globalThis.localStorage : storage;
    if (place?.getItem(ITEM) === null) place.setItem(ITEM, hex(fresh(32)));
    held = place?.getItem(ITEM) ?? null; // read back: some storages take an item and forget it
  } catch {
    // A blocked storage throws as soon as it is named, a full one when it is written.
  }
  if (held !== null) return held;
  throw new Error(`Telemetry: this page has no storage that lasts. ${REMEDY}`);
}
