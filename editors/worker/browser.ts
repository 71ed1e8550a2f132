/** Worker in a browser. */

import { serve } from "./worker";

serve({
  post: (message) => self.postMessage(message),
  listen: (listener) => self.addEventListener("message", (event) => listener(event.data)),
});
