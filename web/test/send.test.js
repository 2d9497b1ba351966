/** A report is sent until a server takes it, and always as the same line. */

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { send } from "../dist/sfumato-telemetry.js";

const report = { v: 1, params: "0".repeat(16), cohort: 3, bits: "a5", id: "1".repeat(32) };

/** Answers of a server in turn; 0 is a broken line. */
function serve(t, ...answers) {
  t.after(() => mock.restoreAll());
  return mock.method(globalThis, "fetch", async () => {
    const status = answers.shift();
    if (status === 0) throw new TypeError("unreachable");
    return { status };
  });
}

test("a broken line and a busy server are tried again with the same id", async (t) => {
  const fetch = serve(t, 0, 503, 204);
  await send("/reports", report, { pause: 1 });
  const calls = fetch.mock.calls.map((call) => call.arguments);
  assert.deepEqual(
    calls.map(([url, { body }]) => [url, body]),
    Array(3).fill(["/reports", `${JSON.stringify(report)}\n`]),
  );
  const [, { method, keepalive, credentials, referrerPolicy }] = calls[0];
  assert.deepEqual(
    [method, keepalive, credentials, referrerPolicy],
    ["POST", true, "omit", "no-referrer"],
  );
});

test("a server that refuses is not asked again", async (t) => {
  const fetch = serve(t, 400, 200);
  await assert.rejects(send("/reports", report, { pause: 1 }), /status 400, 1 tries/);
  assert.equal(fetch.mock.callCount(), 1);
});

test("after the last try it says so", async (t) => {
  const fetch = serve(t, 0, 429, 0);
  await assert.rejects(send("/reports", report, { pause: 1 }), /status 0, 3 tries/);
  assert.equal(fetch.mock.callCount(), 3);
});
