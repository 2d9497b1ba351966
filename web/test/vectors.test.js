/** Bits are those of Python: every shared vector, step by step. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mock, test } from "node:test";
import { Telemetry } from "../dist/sfumato-telemetry.js";
import { unhex } from "./support.js";

const { cases } = JSON.parse(readFileSync(new URL("../vectors.json", import.meta.url), "utf8"));
const hex = (bytes) => Buffer.from(bytes).toString("hex");

/** The next random bytes are the given ones, and zeros after them. */
function foresee(bytes) {
  let at = 0;
  return mock.method(crypto, "getRandomValues", (array) => {
    array.fill(0);
    array.set(bytes.subarray(at, at + array.length));
    at += array.length;
    return array;
  });
}

test("there are vectors of every kind of parameters", () => {
  const kinds = new Set(
    cases.map(({ params }) => (params.categories ? "categories" : params.edges ? "edges" : "text")),
  );
  assert.deepEqual([...kinds].sort(), ["categories", "edges", "text"]);
});

for (const { params, line, secret, cohort, values } of cases) {
  test(`line, cohort, cells, permanent response and report of ${line}`, (t) => {
    t.after(() => mock.restoreAll());
    const client = new Telemetry(params, { secret: unhex(secret) });
    assert.equal(client.parameters.line, line);
    assert.equal(client.cohort, cohort);
    for (const { value, cells, permanent, fresh, report } of values) {
      assert.deepEqual(
        client.cells(value),
        [...cells].sort((one, other) => one - other),
      );
      assert.equal(hex(client.permanent(value)), permanent);
      foresee(unhex(fresh));
      assert.equal(client.encode(value).bits, report);
      mock.restoreAll();
    }
  });
}
