/** Parameters with a fingerprint by Node's own SHA-256, storages in memory, and bits of bytes. */

import { createHash } from "node:crypto";

const sha256 = (bytes) => createHash("sha256").update(bytes).digest();

/** Parameters as JSON.parse gives them, with the fingerprint that belongs to them. */
export function parameters(changes = {}) {
  const shape = {
    metric: "fruit",
    bits: 64,
    hashes: 2,
    cohorts: 8,
    f: 0.5,
    p: 0.2,
    q: 0.7,
    ...changes,
  };
  return {
    format: "sfumato telemetry parameters",
    version: 1,
    scheme: "rappor",
    ...shape,
    fingerprint: fingerprint(shape),
  };
}

function fingerprint({ metric, bits, hashes, cohorts, f, p, q, categories, edges }) {
  const chances = [f * 32768, p * 65536, q * 65536].map((number) => Math.floor(number + 0.5));
  const domain = categories ? categoryDomain(categories) : edges ? edgeDomain(edges) : "-";
  const line = ["sfumato/telemetry/1/rappor", bits, hashes, cohorts, ...chances, domain, metric];
  return sha256(line.join("/")).subarray(0, 8).toString("hex");
}

function categoryDomain(categories) {
  const parts = categories.map((text) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(Buffer.byteLength(text));
    return Buffer.concat([length, Buffer.from(text)]);
  });
  return "categories:" + sha256(Buffer.concat(parts)).toString("hex");
}

function edgeDomain(edges) {
  const bytes = Buffer.alloc(8 * edges.length);
  edges.forEach((edge, at) => bytes.writeDoubleBE(edge, 8 * at));
  return "edges:" + sha256(bytes).toString("hex");
}

/** A secret of 32 bytes named by a number. */
export const secret = (number) => new Uint8Array(sha256(`secret ${number}`));

/** A storage that lasts as long as the test. */
export function memory(items = {}) {
  const held = new Map(Object.entries(items));
  return {
    held,
    getItem: (name) => held.get(name) ?? null,
    setItem: (name, value) => void held.set(name, String(value)),
  };
}

export const unhex = (digits) => new Uint8Array(Buffer.from(digits, "hex"));

/** Cell i of a payload is bit i & 7 of byte i >> 3. */
export const bitsOf = (payload, bits) =>
  Array.from({ length: bits }, (_, cell) => (payload[cell >> 3] >> (cell & 7)) & 1);
