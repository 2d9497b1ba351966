/** Wrong parameters are refused in a sentence, no value is, and no sentence holds one. */

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { readParameters, Telemetry } from "../dist/sfumato-telemetry.js";
import { parameters, secret } from "./support.js";

const client = (changes) => new Telemetry(parameters(changes), { secret: secret(0) });
const basic = { hashes: 1, cohorts: 1 };

const wrong = {
  format: ["other", undefined],
  version: [2, "1"],
  scheme: ["local-hashing"],
  bits: [0, 65537, 1.5, "64", null],
  hashes: [0, 17, 65, 1.5],
  cohorts: [0, 65537, true],
  f: [-0.1, 0.99999, 1, "0.5", null],
  p: [-0.1, 1.1, NaN],
  q: [-0.1, 1.1, 0.2, 0.1],
  metric: [3, "a\nb", "é".repeat(101), "\ud800", undefined],
  fingerprint: ["0".repeat(16), undefined],
};
for (const [name, values] of Object.entries(wrong)) {
  test(`parameters with a wrong ${name} are refused by that name`, () => {
    for (const value of values) {
      const changed = { ...parameters(), [name]: value };
      assert.throws(
        () => readParameters(changed),
        new RegExp(`^RangeError: Parameters: ${name} must be `),
      );
    }
  });
}

test("any change without a new fingerprint is refused", () => {
  for (const change of [
    { bits: 65 },
    { hashes: 3 },
    { cohorts: 9 },
    { f: 0.51 },
    { p: 0.21 },
    { q: 0.71 },
    { metric: "x" },
  ]) {
    assert.throws(() => readParameters({ ...parameters(), ...change }), /fingerprint/);
  }
});

test("the right fingerprint of changed parameters is not told, for it would be pasted in", () => {
  const { fingerprint } = parameters();
  try {
    readParameters({ ...parameters(), fingerprint: "0".repeat(16) });
    assert.fail("taken");
  } catch ({ message }) {
    assert.match(message, /were changed; take the whole text from where it was made\.$/);
    assert.ok(!message.includes(fingerprint));
  }
});

test("a key that is no parameter is refused, as Python does", () => {
  const sentence = /^RangeError: Parameters: more must be left out: it is no parameter\.$/;
  assert.throws(() => readParameters({ ...parameters(), more: 1 }), sentence);
});

test("text that is no JSON object is refused without quoting it", () => {
  for (const text of ["{private", "3", "null", '"text"']) {
    assert.throws(
      () => readParameters(text),
      /^RangeError: Parameters: parameters must be a JSON object\.$/,
    );
  }
  assert.deepEqual(readParameters(JSON.stringify(parameters())), readParameters(parameters()));
});

test("categories and edges that do not fit are refused", () => {
  const shapes = [
    [{ ...basic, bits: 2, categories: ["a", "a"] }, /categories/],
    [{ ...basic, bits: 3, categories: ["a", "b"] }, /categories/],
    [{ ...basic, bits: 2, edges: [0, 1, 1] }, /edges/],
    [{ ...basic, bits: 2, edges: [0, 2, 1] }, /edges/],
    [{ ...basic, bits: 2, edges: [0, 1] }, /edges/],
    [{ ...basic, bits: 1, edges: [0, 1], categories: ["a"] }, /edges/],
    [{ bits: 2, hashes: 2, cohorts: 1, categories: ["a", "b"] }, /hashes/],
    [{ bits: 2, hashes: 1, cohorts: 2, edges: [0, 1, 2] }, /cohorts/],
  ];
  for (const [shape, sentence] of shapes)
    assert.throws(() => readParameters(parameters(shape)), sentence);
  for (const categories of ["ab", [1, 2]]) {
    assert.throws(
      () => readParameters({ ...parameters({ ...basic, bits: 2 }), categories }),
      /categories/,
    );
  }
});

test("no value throws, and what is none is one value, never logged", (t) => {
  t.after(() => mock.restoreAll());
  const logs = ["log", "info", "warn", "error", "debug"].map((name) =>
    mock.method(console, name, () => {}),
  );
  const none = [NaN, null, undefined, true, ["private"], { private: 1 }, Symbol("private")];
  const cases = [
    [client(), [...none, 1234.5, 2 ** 60, 2n ** 64n, "private\ud800"], ""],
    [
      client({ ...basic, bits: 2, categories: ["a", "b"] }),
      [...none, "private", 1234, ""],
      undefined,
    ],
    [client({ ...basic, bits: 2, categories: ["", "b"] }), [...none, "private"], ""],
    [client({ ...basic, bits: 2, edges: [0, 1, 2] }), [...none, "private", "", " 1", "0x1"], null],
  ];
  for (const [telemetry, values, alike] of cases) {
    for (const value of values) {
      assert.deepEqual(telemetry.cells(value), telemetry.cells(alike));
      assert.deepEqual(telemetry.permanent(value), telemetry.permanent(alike));
      assert.match(telemetry.encode(value).bits, /^[0-9a-f]+$/);
    }
  }
  assert.deepEqual(cases[1][0].cells("private"), []);
  assert.deepEqual(cases[2][0].cells("private"), [0]);
  assert.deepEqual(cases[3][0].cells(null), []);
  assert.deepEqual(cases[3][0].cells("1.5"), cases[3][0].cells(1.5));
  assert.deepEqual(cases[3][0].cells(9n), cases[3][0].cells(9));
  assert.deepEqual(client().cells(9n), client().cells("9"));
  client().encode("private");
  assert.equal(
    logs.reduce((calls, log) => calls + log.mock.callCount(), 0),
    0,
  );
});

test("a report holds the fields of the contract, and the value in none", () => {
  const report = client().encode("private");
  assert.deepEqual(Object.keys(report), ["v", "params", "cohort", "bits", "id"]);
  assert.equal(report.v, 1);
  assert.equal(report.params, parameters().fingerprint);
  assert.match(report.bits, /^[0-9a-f]{16}$/);
  assert.match(report.id, /^[0-9a-f]{32}$/);
  assert.ok(!JSON.stringify(report).includes("private"));
  assert.notEqual(client().encode("private").id, report.id);
});

test("whole numbers are their decimal text; bins hold their lower edge", () => {
  assert.deepEqual(client().permanent(-31), client().permanent("-31"));
  assert.deepEqual(client().permanent(-0), client().permanent("0"));
  const bins = client({ ...basic, bits: 3, edges: [-1, 0, 2.5, 10] });
  const placed = [-Infinity, -5, -1, -0.1, 0, 2.4, 2.5, 9, 10, 1e300, Infinity].map(
    (x) => bins.cells(x)[0],
  );
  assert.deepEqual(placed, [0, 0, 0, 0, 1, 1, 2, 2, 2, 2, 2]);
  const names = client({ ...basic, bits: 2, categories: ["no", "7"] });
  assert.deepEqual([names.cells("no"), names.cells(7)], [[0], [1]]);
});
