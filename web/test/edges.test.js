/** Rare turns, too rare for the shared vectors: words skipped, draws on a limit, large tables. */

import assert from "node:assert/strict";
import { createHash, createHmac } from "node:crypto";
import { test } from "node:test";
import { Telemetry } from "../dist/sfumato-telemetry.js";
import { bitsOf, parameters, secret, unhex } from "./support.js";

const LARGE = parameters({ bits: 65536, hashes: 16, cohorts: 65536 });

function u32be(number) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(number);
  return bytes;
}

test("a word that would favour small remainders is skipped", () => {
  // Found by search: the first word of this text lies above the last multiple of 65175.
  const [text, bits] = ["word 192549", 65175];
  const parts = ["sfumato/bloom/1\0", u32be(0), u32be(0), text];
  const hash = parts.reduce((made, part) => made.update(part), createHash("sha256")).digest();
  assert.ok(hash.readUInt32BE(0) >= 2 ** 32 - (2 ** 32 % bits));
  const shape = parameters({ bits, hashes: 1, cohorts: 1 });
  const client = new Telemetry(shape, { secret: secret(0) });
  assert.deepEqual(client.cells(text), [hash.readUInt32BE(4) % bits]);
});

test("a permanent draw equal to the limit does not flip", () => {
  const client = new Telemetry(LARGE, { secret: secret(2) });
  const mac = (key, ...parts) =>
    parts.reduce((made, part) => made.update(part), createHmac("sha256", key)).digest();
  const key = mac(secret(2), `sfumato/client/1\0${client.parameters.line}`);
  const blocks = Array.from({ length: 4096 }, (_, t) => mac(key, "permanent", u32be(t), "tea"));
  const stream = Buffer.concat(blocks);
  const draws = Array.from({ length: 65536 }, (_, cell) => stream.readUInt16BE(2 * cell));
  assert.ok(draws.includes(16384)); // else the secret would show nothing
  const own = new Set(client.cells("tea"));
  const expected = draws.map((draw, cell) => Number(own.has(cell) !== draw < 16384));
  assert.deepEqual(bitsOf(client.permanent("tea"), 65536), expected);
});

test("the last cells of the largest table are drawn as freshly as the first", () => {
  // Beyond ten standard deviations of the ones in half a table: never.
  const sent = bitsOf(unhex(new Telemetry(LARGE, { secret: secret(0) }).encode("tea").bits), 65536);
  const ones = sent.slice(32768).reduce((sum, bit) => sum + bit, 0);
  assert.ok(Math.abs(ones - 32768 * 0.325) < 10 * Math.sqrt(32768 * 0.25));
});
