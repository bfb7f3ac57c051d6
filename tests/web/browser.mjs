// A browser that tells everything that went wrong on a page, and prony beside it.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

export const PATIENCE_MS = 180000; // until something counts as hung, however busy the machine is

export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
export const BUILD = process.env.PRONY_BUILD ?? path.join(ROOT, "build");
const PROGRAM = process.env.PRONY ?? path.join(BUILD, "prony");
const require = createRequire(path.join(BUILD, "node/node_modules/x.js"));
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const folder = mkdtempSync(path.join(os.tmpdir(), "prony-web-"));

export const data = (name) => path.join(ROOT, "tests/data", name);

// Names that strangers could give to what is shown.
export const HOSTILE = [
  "</script><script>globalThis.pwned=1</script>",
  '<img src=x onerror="globalThis.pwned=1">',
  "\"'><svg onload=globalThis.pwned=1>",
  "]]><!--<script>-->",
  "x".repeat(10000),
  "\u202Eevil\u202C \u05E9\u05DC\u05D5\u05DD \u0645\u0631\u062D\u0628\u0627",
  '=HYPERLINK("http://example.org")',
  "\u2028\u0000 {{constructor}} ${1}",
];

// Runs prony in the scratch folder; it must succeed.
export function prony(...argv) {
  const done = spawnSync(PROGRAM, argv, { cwd: folder, encoding: "utf8", maxBuffer: 1 << 28, timeout: PATIENCE_MS });
  assert.equal(done.status, 0, `prony ${argv.join(" ")}\n${done.stderr}`);
  return done.stdout;
}

export function start(argv, env = {}) {
  return spawn(PROGRAM, argv, { cwd: folder, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
}

let browser;

export async function open() {
  browser ??= await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    // root, as in a container, can't have Chromium's own sandbox
    args: process.getuid() === 0 ? ["--no-sandbox"] : [],
    timeout: PATIENCE_MS,
  });
  return browser;
}

export async function close() {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
}

// Keeps what goes wrong on a page in `page.faults`: what it says, and what it asks for beyond `allowed`
// addresses. `page.expected` is what it may say, since a browser itself tells of answers that are errors.
function watch(page, allowed) {
  page.faults = [];
  page.expected = null;
  page.on("console", (message) => {
    if (!["error", "warning"].includes(message.type()) || page.expected?.test(message.text())) return;
    page.faults.push(message.text());
  });
  page.on("pageerror", (error) => page.faults.push(error.message));
  page.on("dialog", (dialog) => {
    page.faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    if (!allowed(request.url()) && !/^(data|blob):/.test(request.url())) page.faults.push(`request: ${request.url()}`);
  });
  return page;
}

async function newPage(options, allowed) {
  const context = await (
    await open()
  ).newContext({
    viewport: { width: options.width ?? 1200, height: 900 },
    colorScheme: options.scheme ?? "light",
    // The certificates of tests are signed by nobody.
    ignoreHTTPSErrors: true,
  });
  context.setDefaultTimeout(PATIENCE_MS);
  return watch(await context.newPage(), allowed);
}

// A page with what it said and asked for; `faults` must stay empty.
export async function visit(address, options = {}) {
  const url = /^(http|file)/.test(address) ? address : pathToFileURL(path.resolve(folder, address)).href;
  const page = await newPage(options, (asked) => asked.split("#")[0] === url.split("#")[0]);
  await page.goto(url);
  await page.waitForSelector("article");
  await settle(page);
  return page;
}

// A service's page, which may ask that service; reports that it opens are watched too.
export async function visitService(address, options = {}) {
  const page = await newPage(options, (asked) => asked.startsWith(address));
  page.opened = [];
  page.context().on("page", (other) => page.opened.push(watch(other, (asked) => asked.startsWith(address))));
  page.expected = options.expected ?? null;
  await options.prepare?.(page);
  await page.goto(address);
  return page;
}

// Pictures are drawn when their width is known, one frame after they are in the page.
export async function settle(page) {
  await page.waitForFunction(() => [...document.querySelectorAll(".picture")].every((p) => p.childElementCount > 0));
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

// Opens whatever is folded, which is made then.
export async function unfold(page) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));
  await page.waitForFunction(() => [...document.querySelectorAll("details")].every((d) => d.childElementCount > 1));
  await settle(page);
}

// A picture for people, in the build folder, where they are asked for.
export async function shot(page, name, fullPage = true) {
  if (!process.env.PRONY_SHOTS) return;
  await page.screenshot({ path: path.join(BUILD, `tests/web/${name}.png`), fullPage });
}

export async function leave(page) {
  assert.deepEqual(
    [page, ...(page.opened ?? [])].flatMap((p) => p.faults),
    [],
  );
  // What a route is at when the page closes has nobody to answer.
  for (const p of [page, ...(page.opened ?? [])]) {
    if (!p.isClosed()) await p.unrouteAll({ behavior: "ignoreErrors" });
  }
  await page.context().close();
}

export const overflow = (page) => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);

// What axe-core finds serious. It is run by the debugger, to which the page's policy doesn't apply.
export async function seriousFaults(page, only = null) {
  await page.evaluate(AXE);
  const found = await page.evaluate(
    (rules) =>
      globalThis.axe.run(document, {
        resultTypes: ["violations"],
        ...(rules ? { runOnly: rules } : {}),
      }),
    only,
  );
  return found.violations
    .filter((v) => v.impact === "serious" || v.impact === "critical")
    .map(
      (v) =>
        `${v.id}: ${v.nodes
          .slice(0, 3)
          .map((n) => n.html.slice(0, 200))
          .join(" | ")}`,
    );
}

// The page's data, as it got them.
export function embedded(file) {
  const html = readFileSync(path.resolve(folder, file), "utf8");
  return JSON.parse(/id="prony-data">(.*?)<\/script>/s.exec(html)[1]);
}

// Rows of a table by its label: [{title: {text, value}}]. One that is folded is made when it is opened.
export async function rows(page, label) {
  await page.waitForFunction(
    (wanted) => [...document.querySelectorAll(".scroll")].some((e) => e.getAttribute("aria-label") === wanted),
    label,
  );
  return page.evaluate((wanted) => {
    const region = [...document.querySelectorAll(".scroll")].find((e) => e.getAttribute("aria-label") === wanted);
    const titles = [...region.querySelectorAll("thead th")].map((th) => th.textContent);
    return [...region.querySelectorAll("tbody tr")].map((tr) =>
      Object.fromEntries(
        [...tr.children].map((cell, i) => [
          titles[i],
          { text: cell.textContent, value: cell.dataset.value === undefined ? null : Number(cell.dataset.value) },
        ]),
      ),
    );
  }, label);
}
