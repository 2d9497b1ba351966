/** What the bundle offers. */

export { readParameters } from "./parameters.js";
export { ITEM } from "./secret.js";
export { send } from "./send.js";
export { Telemetry } from "./telemetry.js";
