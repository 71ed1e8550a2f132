/** The worker as a thread of Node. */

import { parentPort } from "node:worker_threads";
import { serve } from "./worker";

const port = parentPort;
if (!port) {
  throw new Error("this file is a worker");
}
serve({
  post: (message) => port.postMessage(message),
  listen: (listener) => port.on("message", listener),
});
