// Bundles the page: one script and one style, whose hashes are all that its policy allows, as two
// pieces of HTML between which prony puts the data. Written as C, for the program to hold.
//   node build.mjs NODE_MODULES OUT.c
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

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

const script = bundle("report.ts");
const style = bundle("style.css");
if (/<\/(script|style)/i.test(script + style)) throw new Error("the bundle would end its element");
const licence = readFileSync(path.join(modules, "uplot", "LICENSE"), "utf8").trim();
const policy =
  `default-src 'none'; script-src ${hashed(script)}; style-src ${hashed(style)}; ` +
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
<!-- Holds uPlot.
${licence.replaceAll("--", "- -")}
-->
<style>${style}</style>
</head>
<body>
<noscript>This report is drawn by a script, and scripts are switched off here.</noscript>
<script type="application/json" id="prony-data">`;
const tail = `</script>
<script>${script}</script>
</body>
</html>
`;

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

${array("head", head)}
${array("tail", tail)}
const struct prn_web prn_web = {
    .head = (const char *)head,
    .tail = (const char *)tail,
    .head_bytes = sizeof head,
    .tail_bytes = sizeof tail,
    .policy = ${JSON.stringify(policy + "; frame-ancestors 'none'")},
};
`,
);
