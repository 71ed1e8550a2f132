/**
 * Pyodide rejects classic workers on load, since they cannot import its main file. Here the file is bundled, and VS Code
 * in a browser only starts classic workers. So this module has to be imported before Pyodide.
 */

if ("importScripts" in globalThis) {
  Object.defineProperty(globalThis, "importScripts", { value: undefined });
}

export {};
