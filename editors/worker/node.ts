/** Worker as a Node thread. */

import { parentPort } from "node:worker_threads";
import { serve } from "./worker";

const port = parentPort;
if (!port) {
  throw new Error("this file has to run as a worker thread");
}
serve({
  post: (message) => port.postMessage(message),
  listen: (listener) => port.on("message", listener),
});
