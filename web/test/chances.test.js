/** Lies come with the chances that the parameters state. */

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Telemetry } from "../dist/sfumato-telemetry.js";
import { bitsOf, parameters, secret, unhex } from "./support.js";

const BITS = 64;

/** A sum of n squared normal numbers is above this with chance 1e-12 at most (Laurent, Massart). */
const ceiling = (n) => n + 2 * Math.sqrt(n * Math.log(1e12)) + 2 * Math.log(1e12);

function surprise(counts, trials, chances) {
  return counts.reduce((sum, count, cell) => {
    const chance = chances[cell];
    return sum + (count - trials * chance) ** 2 / (trials * chance * (1 - chance));
  }, 0);
}

test("the bits sent are ones with chance q over a one and p over a zero, cell by cell", () => {
  // True randomness: fails by chance once in 1e12 runs.
  const client = new Telemetry(parameters(), { secret: secret(0) });
  const kept = bitsOf(client.permanent("tea"), BITS);
  const counts = new Array(BITS).fill(0);
  for (let report = 0; report < 4000; report++) {
    bitsOf(unhex(client.encode("tea").bits), BITS).forEach((bit, cell) => (counts[cell] += bit));
  }
  const chances = kept.map((bit) => (bit ? 45875 : 13107) / 65536);
  assert.ok(surprise(counts, 4000, chances) < ceiling(BITS));
});

test("the lies of neighbouring cells and of successive reports are independent", () => {
  // Pairs of lies are counted in four cells; fails by chance once in 1e12 runs.
  const client = new Telemetry(parameters({ p: 0.25, q: 0.75 }), { secret: secret(0) });
  const kept = bitsOf(client.permanent("tea"), BITS);
  const lies = [];
  for (let report = 0; report < 2000; report++) {
    lies.push(
      ...bitsOf(unhex(client.encode("tea").bits), BITS).map((bit, cell) => bit ^ kept[cell]),
    );
  }
  for (const distance of [1, BITS]) {
    const both = lies.map((lie, at) => lie & lies[(at + distance) % lies.length]);
    const count = both.reduce((sum, one) => sum + one, 0);
    // Neighbouring products share a lie, so their covariance widens the variance.
    const variance = lies.length * (1 / 16 - 1 / 256 + 2 * (1 / 64 - 1 / 256));
    assert.ok((count - lies.length / 16) ** 2 / variance < ceiling(1));
  }
});

test("a fresh number of 16 bits, the high byte first, decides each cell in order", (t) => {
  const client = new Telemetry(parameters({ bits: 4, hashes: 1, f: 0 }), { secret: secret(1) });
  const [own] = client.cells("tea"); // f = 0: the permanent bits are the cells themselves
  const draw = [13106, 13107, 13106, 13107]; // p runs as 13107 of 65536
  draw[own] = 45874; // q as 45875
  const bytes = draw.flatMap((number) => [number >> 8, number & 255]);
  t.after(() => mock.restoreAll());
  mock.method(crypto, "getRandomValues", (array) => {
    array.set(bytes.slice(0, array.length));
    array.fill(9, bytes.length);
    return array;
  });
  const expected = [1, 0, 1, 0];
  expected[own] = 1;
  const report = client.encode("tea");
  assert.deepEqual(bitsOf(unhex(report.bits), 4), expected);
  assert.equal(report.id.length, 32);
});

test("permanent flips have chance f / 2 and cohorts are equally likely", () => {
  // Fixed secrets, so the outcome is fixed; a right client would miss with chance 2e-12.
  const flips = new Array(BITS).fill(0);
  const cohorts = new Array(8).fill(0);
  for (let number = 0; number < 2000; number++) {
    const client = new Telemetry(parameters(), { secret: secret(number) });
    const own = client.cells("tea");
    bitsOf(client.permanent("tea"), BITS).forEach((bit, cell) => {
      flips[cell] += bit ^ (own.includes(cell) ? 1 : 0);
    });
    cohorts[client.cohort] += 1;
  }
  assert.ok(
    surprise(
      flips,
      2000,
      flips.map(() => 0.25),
    ) < ceiling(BITS),
  );
  assert.ok(
    surprise(
      cohorts,
      2000,
      cohorts.map(() => 1 / 8),
    ) < ceiling(8),
  );
});

test("one-time reports are the permanent response, bit for bit", () => {
  const client = new Telemetry(parameters({ p: 0, q: 1 }), { secret: secret(2) });
  const kept = Buffer.from(client.permanent("tea")).toString("hex");
  assert.deepEqual(
    [1, 2, 3].map(() => client.encode("tea").bits),
    [kept, kept, kept],
  );
});

test("both epsilons follow from the chances that run", () => {
  const { parameters: full } = new Telemetry(parameters({ p: 0.25, q: 0.75 }), {
    secret: secret(3),
  });
  assert.ok(Math.abs(full.epsilonPermanent - 4 * Math.log(3)) < 1e-12);
  // q* = 5/8 and p* = 3/8
  assert.ok(Math.abs(full.epsilonOne - 4 * Math.log(5 / 3)) < 1e-12);
  const rounded = new Telemetry(parameters({ f: 0.73, p: 0, q: 1 }), { secret: secret(3) })
    .parameters;
  assert.equal(rounded.flip, 23921);
  assert.ok(Math.abs(rounded.epsilonOne - 4 * Math.log(41615 / 23921)) < 1e-12);
  assert.equal(
    new Telemetry(parameters({ f: 0 }), { secret: secret(3) }).parameters.epsilonPermanent,
    Infinity,
  );
});
