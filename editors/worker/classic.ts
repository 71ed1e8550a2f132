/**
 * Pyodide refuses a classic worker as soon as it is loaded, since such a one could not import its main file; here
 * that is bundled, and VS Code in a browser starts no other workers. So this comes before Pyodide.
 */

if ("importScripts" in globalThis) {
  Object.defineProperty(globalThis, "importScripts", { value: undefined });
}

export {};
