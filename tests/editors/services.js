// Drives the real services from jobs on stdin, one JSON object a line, and answers each on stdout.
//   {"schema": path, "language": "json" | "yaml", "text", "ask": "validate" | "hover" | "complete", "at": offset}
//   {"schema": path, "ask": "ajv", "documents": [...]}    {"schema": path, "text", "ask": "time", "rounds": n}
const fs = require("fs");
const readline = require("readline");
const { performance } = require("perf_hooks");
const Ajv = require("ajv");
const json = require("vscode-json-languageservice");
const yaml = require("yaml-language-server/out/server/src/languageservice/yamlLanguageService.js");
const { SettingsState } = require("yaml-language-server/out/server/src/yamlSettings.js");
const { TextDocument } = require("vscode-languageserver-textdocument");

const KEYWORDS = ["markdownDescription", "deprecationMessage", "errorMessage", "doNotSuggest", "enumDescriptions", "defaultSnippets",
  "patternErrorMessage"];
const schemas = new Map();
const services = new Map();

function schemaOf(path) {
  if (!schemas.has(path)) schemas.set(path, JSON.parse(fs.readFileSync(path, "utf8")));
  return schemas.get(path);
}

function jsonService(path) {
  const service = json.getLanguageService({ schemaRequestService: async (uri) => { throw new Error(uri); } });
  const schema = { uri: "schema://config", fileMatch: ["*.json"], schema: structuredClone(schemaOf(path)) };
  service.configure({ validate: true, allowComments: false, schemas: [schema] });
  const parse = (document) => service.parseJSONDocument(document);
  return {
    validate: (document) => service.doValidation(document, parse(document)),
    hover: (document, place) => service.doHover(document, place, parse(document)),
    complete: (document, place) => service.doComplete(document, place, parse(document)),
  };
}

function yamlService(path) {
  const nothing = () => {};
  const connection = {
    onRequest: nothing, sendNotification: nothing, sendRequest: nothing, client: { register: nothing },
    console: { error: console.error, log: nothing, warn: nothing },
  };
  const settings = new SettingsState();
  const service = yaml.getLanguageService({
    schemaRequestService: async (uri) => { throw new Error(uri); },
    workspaceContext: { resolveRelativePath: (relative) => relative },
    telemetry: { send: nothing, sendError: (name, error) => console.error(name, error), sendTrack: nothing },
    connection, yamlSettings: settings,
  });
  const schema = { uri: "file:///schema.json", fileMatch: ["*.yaml"], schema: structuredClone(schemaOf(path)) };
  service.configure({ validate: true, hover: true, completion: true, hoverSchemaSource: false, schemas: [schema] });
  const open = (document) => { settings.documents = { get: () => document }; };
  return {
    validate: (document) => { open(document); return service.doValidation(document, false); },
    hover: (document, place) => { open(document); return service.doHover(document, place); },
    complete: (document, place) => { open(document); return service.doComplete(document, place, false); },
  };
}

function serviceOf(job) {
  const key = `${job.language} ${job.schema}`;
  if (!services.has(key)) services.set(key, (job.language === "yaml" ? yamlService : jsonService)(job.schema));
  return services.get(key);
}

const plain = (contents) => (contents && typeof contents === "object" && !Array.isArray(contents) ? contents.value : contents);
let opened = 0;

async function answer(job) {
  if (job.ask === "ajv") return ajv(job);
  const name = `file:///config-${opened++}.${job.language || "json"}`;
  const document = TextDocument.create(name, job.language || "json", 1, job.text);
  const service = serviceOf(job);
  if (job.ask === "time") return time(service, document, job.rounds);
  if (job.ask === "validate") {
    return (await service.validate(document)).map((found) => ({
      start: document.offsetAt(found.range.start), end: document.offsetAt(found.range.end),
      severity: found.severity, message: found.message,
    }));
  }
  const place = document.positionAt(job.at);
  if (job.ask === "hover") {
    const found = await service.hover(document, place);
    return found ? plain(found.contents) : null;
  }
  const found = await service.complete(document, place);
  return found.items.map((item) => ({ label: item.label, text: item.insertText, told: plain(item.documentation) || "" }));
}

function ajv(job) {
  const judge = new Ajv({
    strict: true, strictTypes: false, strictTuples: false, allowMatchingProperties: true, allErrors: true, logger: false,
  });
  for (const keyword of [...KEYWORDS, "x-dsconfig-target", "x-dsconfig-consumer"]) judge.addKeyword(keyword);
  const valid = judge.compile(structuredClone(schemaOf(job.schema)));
  return job.documents.map((document) => valid(document));
}

async function time(service, document, rounds) {
  const taken = [];
  for (let round = 0; round < rounds; round++) {
    const start = performance.now();
    await service.validate(document);
    taken.push(performance.now() - start);
  }
  return taken;
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let result;
    try {
      result = { found: await answer(JSON.parse(line)) };
    } catch (error) {
      result = { error: String(error && error.stack || error) };
    }
    process.stdout.write(JSON.stringify(result) + "\n");
  }
  process.exit(0);
})();
