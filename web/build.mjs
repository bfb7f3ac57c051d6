// Bundles the pages: each one script and one style, whose hashes are all that its policy allows. That of
// reports is two pieces of HTML between which prony puts the data; that of the service is whole.
// Written as C, for the program to hold. Beside it go the types of the reports, made of their schemas, and what
// makes the compiler see them: tsc -p tsconfig.json.
//   node build.mjs NODE_MODULES OUT.c
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { types } from "./types.mjs";

const [modules, output] = process.argv.slice(2).map((p) => path.resolve(p));
const source = path.join(path.dirname(fileURLToPath(import.meta.url)), "src");
const { buildSync } = createRequire(path.join(modules, "x.js"))("esbuild");

function bundle(entry) {
  const result = buildSync({
    entryPoints: [path.join(source, entry)],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: ["es2020"],
    charset: "utf8",
    legalComments: "none",
    nodePaths: [modules],
    logLevel: "error",
  });
  return result.outputFiles[0].text.trimEnd();
}

function hashed(text) {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

const licence = readFileSync(path.join(modules, "uplot", "LICENSE"), "utf8").trim();

// A page in two pieces, around what stands where its data are; `more` is what else its policy allows.
function page(entry, more, notice, noscript, before, after) {
  const script = bundle(`${entry}.ts`);
  const style = bundle(`${entry}.css`);
  if (/<\/(script|style)/i.test(script + style)) throw new Error("the bundle would end its element");
  const policy =
    `default-src 'none'; script-src ${hashed(script)}; style-src ${hashed(style)}; ${more}` +
    "img-src data:; base-uri 'none'; form-action 'none'";
  const head = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>prony</title>
<link rel="icon" href="data:,">
${notice}<style>${style}</style>
</head>
<body>
<noscript>${noscript}, and scripts are switched off here.</noscript>
${before}`;
  const tail = `${after}<script>${script}</script>
</body>
</html>
`;
  return { head, tail, policy: `${policy}; frame-ancestors 'none'` };
}

const report = page(
  "report",
  "",
  `<!-- Holds uPlot.
${licence.replaceAll("--", "- -")}
-->
`,
  "This report is drawn by a script",
  `<script type="application/json" id="prony-data">`,
  "</script>\n",
);
const dashboard = page("dashboard", "connect-src 'self'; ", "", "This page is drawn by a script", "", "");

// Numbers, because a string literal of that length is beyond what C promises.
function array(name, text) {
  const bytes = [...Buffer.from(text, "utf8")];
  const rows = [];
  for (let i = 0; i < bytes.length; i += 40) rows.push(bytes.slice(i, i + 40).join(","));
  return `static const unsigned char ${name}[] = {\n${rows.join(",\n")}};\n`;
}

writeFileSync(
  output,
  `/* Made by web/build.mjs. */
#include "report/web.h"

${array("head", report.head)}
${array("tail", report.tail)}
${array("dashboard", dashboard.head + dashboard.tail)}
const struct prn_web prn_web = {
    .head = (const char *)head,
    .tail = (const char *)tail,
    .head_bytes = sizeof head,
    .tail_bytes = sizeof tail,
    .policy = ${JSON.stringify(report.policy)},
    .dashboard = (const char *)dashboard,
    .dashboard_bytes = sizeof dashboard,
    .dashboard_policy = ${JSON.stringify(dashboard.policy)},
};
`,
);

const docs = path.join(source, "../../docs");
const schemas = readdirSync(docs).filter((name) => name.endsWith(".schema.json"));
const generated = path.dirname(output);
const config = {
  extends: path.join(source, "../tsconfig.json"),
  include: [source, "records.d.ts"],
  compilerOptions: { paths: { uplot: [path.join(modules, "uplot")] } },
};
writeFileSync(
  path.join(generated, "records.d.ts"),
  types(schemas.sort().map((name) => JSON.parse(readFileSync(path.join(docs, name), "utf8")))),
);
writeFileSync(path.join(generated, "tsconfig.json"), JSON.stringify(config));
