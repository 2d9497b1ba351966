/** Carry a report to a server: as often as needed, counted once. */

/** @typedef {import("./telemetry.js").Report} Report */

/**
 * Post one report as a line of NDJSON. The id stays, so the server counts a repeated one once.
 *
 * @param {string} url
 * @param {Report} report
 * @param {{tries?: number, pause?: number}} [options] pause: milliseconds, doubled every time
 */
export async function send(url, report, { tries = 3, pause = 1000 } = {}) {
  for (let attempt = 1; ; attempt++) {
    const status = await post(url, JSON.stringify(report) + "\n");
    if (status >= 200 && status < 300) return;
    const hopeless = status >= 400 && status < 500 && status !== 429;
    if (hopeless || attempt >= tries) {
      throw new Error(`send: no server took the report (status ${status}, ${attempt} tries).`);
    }
    await new Promise((resume) => setTimeout(resume, pause * 2 ** (attempt - 1)));
  }
}

/** @param {string} url @param {string} body @returns {Promise<number>} status; 0 if unreachable */
const post = (url, body) =>
  fetch(url, {
    method: "POST",
    body,
    headers: { "Content-Type": "text/plain" }, // other types cost a second request across sites
    credentials: "omit", // a cookie would say who reports
    referrerPolicy: "no-referrer",
    keepalive: true,
  }).then(
    (answer) => answer.status,
    () => 0,
  );
