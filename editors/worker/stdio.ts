/**
 * Worker on stdio for tests: every line of input and output is a message.
 *   node dist/stdio.mjs [FOLDER …]     the worker gets the files in these directories, under the same paths
 */

import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { startThread } from "./thread";

function files(folder: string): { path: string; content: Uint8Array }[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile())
    .map((path) => ({ path, content: readFileSync(path) }));
}

const client = await startThread(import.meta.dirname);
client.mirror({ write: process.argv.slice(2).flatMap((folder) => files(resolve(folder))) });
client.onMessage = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
for await (const line of createInterface({ input: process.stdin })) {
  client.send(JSON.parse(line));
}
client.end();
