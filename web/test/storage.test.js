/** One secret for a site, made once; without a storage that lasts nothing is reported. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { ITEM, Telemetry } from "../dist/sfumato-telemetry.js";
import { memory, parameters, secret } from "./support.js";

const kept = (client) => [client.cohort, ...client.permanent("tea")].join();
const wide = (metric) => parameters({ metric, bits: 256, cohorts: 65536 });

test("the first client makes a secret of 32 bytes and later ones find it", () => {
  const storage = memory();
  const first = new Telemetry(wide("fruit"), { storage });
  assert.deepEqual([...storage.held.keys()], [ITEM]);
  assert.match(storage.held.get(ITEM), /^[0-9a-f]{64}$/);
  const before = storage.held.get(ITEM);
  assert.equal(kept(new Telemetry(wide("fruit"), { storage })), kept(first));
  assert.equal(storage.held.get(ITEM), before);
});

test("the stored digits are the secret", () => {
  const storage = memory({ [ITEM]: Buffer.from(secret(4)).toString("hex") });
  const given = new Telemetry(wide("fruit"), { secret: secret(4) });
  assert.equal(kept(new Telemetry(wide("fruit"), { storage })), kept(given));
});

test("another storage, another metric or other chances respond on their own", () => {
  const storage = memory();
  const seen = [
    new Telemetry(wide("fruit"), { storage }),
    new Telemetry(wide("fruit"), { storage: memory() }),
    new Telemetry(wide("drinks"), { storage }),
    new Telemetry(parameters({ bits: 256, cohorts: 65536, f: 0.51 }), { storage }),
  ].map(kept);
  assert.equal(new Set(seen).size, 4);
});

test("nothing but the secret is ever stored", () => {
  const storage = memory();
  const client = new Telemetry(wide("fruit"), { storage });
  for (const word of ["tea", "milk"]) client.encode(word);
  assert.deepEqual([...storage.held.keys()], [ITEM]);
});

const refuse = () => {
  throw new Error("blocked");
};
const broken = {
  "no storage": null,
  "one that cannot be read": { ...memory(), getItem: refuse },
  "one that is full": { ...memory(), setItem: refuse },
  "one that forgets": { ...memory(), setItem: () => {} },
};
for (const [name, storage] of Object.entries(broken)) {
  test(`${name} refuses, and says why and what helps`, () => {
    assert.throws(
      () => new Telemetry(wide("fruit"), { storage }),
      /no storage that lasts.*add up.*secret/,
    );
    assert.ok(new Telemetry(wide("fruit"), { storage, secret: secret(5) }).encode("tea"));
  });
}

test("a page that may not even name localStorage gets the same sentence", (t) => {
  const before = Object.getOwnPropertyDescriptor(globalThis, "localStorage");
  t.after(() => {
    if (before) Object.defineProperty(globalThis, "localStorage", before);
    else delete globalThis.localStorage;
  });
  Object.defineProperty(globalThis, "localStorage", { configurable: true, get: refuse });
  assert.throws(() => new Telemetry(wide("fruit")), /no storage that lasts/);
});

test("an item that is no secret is named, neither used nor replaced", () => {
  const storage = memory({ [ITEM]: "hello" });
  assert.throws(
    () => new Telemetry(wide("fruit"), { storage }),
    /sfumato\.telemetry\.secret.*64 hex/,
  );
  assert.equal(storage.held.get(ITEM), "hello");
});

test("a given secret has at least 16 bytes and leaves the storage alone", () => {
  const storage = memory();
  new Telemetry(wide("fruit"), { storage, secret: new Uint8Array(16) });
  assert.equal(storage.held.size, 0);
  for (const short of [new Uint8Array(15), "0123456789abcdef", null, [1, 2]]) {
    assert.throws(() => new Telemetry(wide("fruit"), { secret: short }), /at least 16 bytes/);
  }
});
