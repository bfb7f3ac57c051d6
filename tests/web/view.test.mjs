// `prony view`: the same pages, served to this machine.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createReadStream, readFileSync, writeFileSync } from "node:fs";
import http from "node:http";
import path from "node:path";
import { after, test } from "node:test";
import {
  BUILD,
  HOSTILE,
  PATIENCE_MS,
  close,
  data,
  embedded,
  folder,
  leave,
  overflow,
  prony,
  rows,
  seriousFaults,
  settle,
  shot,
  start,
  unfold,
  visit,
} from "./browser.mjs";
import { made, names } from "./reports.mjs";

after(close);

// Serves files while `use` runs, which gets the address; then Ctrl-C must end it.
async function viewing(files, use, options = ["--no-browser"], env = {}) {
  const process = start(["view", ...files, ...options], env);
  let said = "";
  process.stderr.on("data", (text) => (said += text));
  const ended = new Promise((done) => process.on("exit", (status, signal) => done({ status, signal })));
  const address = await new Promise((done, fail) => {
    let text = "";
    process.stdout.on("data", (piece) => {
      text += piece;
      const found = /http:\/\/\S+/.exec(text);
      if (found) done(found[0]);
    });
    void ended.then(() => fail(new Error(`it ended: ${said}`)));
  });
  try {
    await use(address);
  } finally {
    process.kill("SIGINT");
  }
  assert.deepEqual(await ended, { status: 0, signal: null }, said);
}

function get(address, options = {}) {
  return new Promise((done, fail) => {
    const request = http.request(address, options, (response) => {
      let body = "";
      response.on("data", (piece) => (body += piece));
      response.on("end", () => done({ status: response.statusCode, headers: response.headers, body }));
    });
    request.on("error", fail);
    request.end();
  });
}

test("saved JSON, a page and a trace are on one page", async () => {
  prony("report", data("profile-several.json"), "--format", "html", "-o", "several.html");
  const files = [data("profile-sweep.json"), "several.html", data("trace/parallel.json")];
  await viewing(files, async (address) => {
    const page = await visit(address);
    const schemas = [];
    for (const button of await page.locator("nav button").all()) {
      await button.click();
      schemas.push(await page.getAttribute("article", "data-schema"));
    }
    assert.deepEqual(schemas, ["prony.profile/1", "prony.profile/1", "prony.trace/1"]);
    assert.deepEqual(await seriousFaults(page), []);
    await shot(page, "view");
    await leave(page);
  });
});

test("Back goes back to the report before, as it was", async () => {
  await viewing([data("profile-sweep.json"), data("profile-several.json")], async (address) => {
    const page = await visit(address);
    const title = () => page.textContent("h1");
    await page.selectOption("select[aria-label='Along']", { label: "seq" });
    await page.locator("nav button").nth(1).click();
    assert.equal(await title(), "resnet50.onnx");
    const other = await visit(page.url());
    assert.equal(await other.textContent("h1"), "resnet50.onnx");
    await leave(other);
    await page.goBack();
    await settle(page);
    assert.equal(await title(), "bert.onnx");
    assert.equal(await page.textContent(".s-sweep h3"), "Latency over seq");
    assert.equal(await page.getAttribute("nav button:first-child", "aria-pressed"), "true");
    await page.goForward();
    await settle(page);
    assert.equal(await title(), "resnet50.onnx");
    await leave(page);
  });
});

test("every kind of saved JSON", async () => {
  const files = {
    "comparison.json": ["report", data("compare-before.json"), data("compare-after.json")],
    "traces.json": ["explore", data("trace/parallel.json"), "--compare", data("trace/gpu.json")],
    "trace.json": ["explore", data("trace/gpu.json")],
  };
  for (const [file, argv] of Object.entries(files)) prony(...argv, "--format", "json", "-o", file);
  await viewing(Object.keys(files), async (address) => {
    const page = await visit(address);
    for (const button of await page.locator("nav button").all()) {
      await button.click();
      assert.equal(await page.locator(".warning:has-text('can\\'t be shown')").count(), 0);
    }
    await leave(page);
  });
});

test("every report that was written as a page", async () => {
  for (const name of names) made(name);
  await viewing(
    names.map((name) => `${name}.html`),
    async (address) => {
      const page = await visit(address);
      const reports = names.flatMap((name) => embedded(`${name}.html`).reports);
      const buttons = await page.locator("nav button").all();
      assert.equal(buttons.length, reports.length);
      for (const [i, report] of reports.entries()) {
        await buttons[i].click();
        await settle(page);
        assert.equal(await page.getAttribute("article", "data-schema"), report.data.schema);
        assert.equal(await page.locator(".warning:has-text('can\\'t be shown')").count(), 0);
        if (report.data.schema === "prony.profile/1" && !report.data.profiles)
          assert.deepEqual(
            new Set((await rows(page, "Results")).map((row) => row.Time.value)),
            new Set(report.data.results.map((r) => r.stats?.median_ns ?? null)),
          );
      }
      await leave(page);
    },
  );
});

// Data that somebody sent: in every kind of report every text is hostile, but for the few that say what it is.
const MEANT = new Set(["schema", "kind", "verdict", "objective", "selected", "local_reason"]);

function poisoned(report) {
  let n = 0;
  return JSON.parse(JSON.stringify(report), (key, value) =>
    typeof value === "string" && !MEANT.has(key)
      ? `${HOSTILE[n++ % HOSTILE.length].replaceAll("\u0000", "")} ${n}`
      : value,
  );
}

test("hostile texts in every kind of report stay texts", async () => {
  const files = names.map((name) => {
    made(name);
    const json = JSON.stringify({
      ...embedded(`${name}.html`),
      reports: embedded(`${name}.html`).reports.map(poisoned),
    }).replaceAll("<", "\\u003c");
    const html = readFileSync(path.join(folder, `${name}.html`), "utf8").replace(
      /(id="prony-data">).*?(<\/script>)/s,
      (_, begin, end) => begin + json + end,
    );
    writeFileSync(path.join(folder, `hostile-${name}.html`), html);
    return `hostile-${name}.html`;
  });
  await viewing(files, async (address) => {
    const { body } = await get(address);
    assert.doesNotMatch(/id="prony-data">(.*?)<\/script>/s.exec(body)[1], /[<>&]/);
    const page = await visit(address, { width: 360 });
    for (const [i, button] of (await page.locator("nav button").all()).entries()) {
      await button.click();
      await unfold(page);
      assert.equal(await page.locator(".warning:has-text('can\\'t be shown')").count(), 0, String(i));
      assert.equal(await page.evaluate(() => globalThis.pwned), undefined);
      assert.equal(
        await page.evaluate(() => document.querySelectorAll("script, img, iframe, main a:not(.anchor)").length),
        2,
      );
      assert.ok((await overflow(page)) <= 0, `${i} scrolls sideways`);
      await shot(page, `view-hostile-${i}`);
    }
    await leave(page);
  });
});

test("the answer is strict, and for this machine only", async () => {
  await viewing([data("profile-single.json")], async (address) => {
    const { status, headers, body } = await get(address);
    assert.equal(status, 200);
    assert.match(
      headers["content-security-policy"],
      /^default-src 'none'; script-src 'sha256-[^' ]+'; style-src 'sha256-[^' ]+';.* frame-ancestors 'none'$/,
    );
    assert.equal(headers["x-content-type-options"], "nosniff");
    assert.equal(headers["content-type"], "text/html; charset=utf-8");
    assert.ok(body.includes(/content="(default-src[^"]*)"/.exec(body)[1]));
    assert.equal((await get(address, { headers: { Host: "evil.example.org" } })).status, 403);
    assert.equal((await get(`${address}../../etc/passwd`)).status, 404);
    assert.equal((await get(address, { method: "POST" })).status, 405);
  });
});

test("a browser is opened with the address", async () => {
  const fifo = path.join(folder, "opened");
  const browser = path.join(folder, "browser");
  assert.equal(spawnSync("mkfifo", [fifo]).status, 0);
  writeFileSync(browser, `#!/bin/sh\nexec > '${fifo}'\necho "$1"\ngrep SigIgn /proc/self/status\n`, { mode: 0o755 });
  await viewing(
    [data("profile-single.json")],
    async (address) => {
      let opened = "";
      for await (const piece of createReadStream(fifo, "utf8")) opened += piece;
      const [said, ignored] = opened.trim().split("\n");
      assert.equal(said, address);
      assert.equal(BigInt(`0x${ignored.split("\t")[1]}`) & 0x1000n, 0n, "SIGPIPE is as usual");
    },
    [],
    { BROWSER: browser },
  );
});

test("a page from elsewhere brings its data, not its script", async () => {
  const html = readFileSync(path.join(folder, "several.html"), "utf8").replace(
    "<body>",
    "<body><script>globalThis.pwned = 1</script>",
  );
  writeFileSync(path.join(folder, "theirs.html"), html);
  await viewing(["theirs.html"], async (address) => {
    const { body } = await get(address);
    assert.ok(!body.includes("pwned"));
  });
});

// What a file says that has the name of a schema and nothing else of it.
test("a report that is broken inside is told, and the others are shown", async () => {
  writeFileSync(
    path.join(folder, "broken.json"),
    JSON.stringify({ schema: "prony.schedule/1", feasible: true, stages: 7 }),
  );
  await viewing(["broken.json", data("profile-single.json")], async (address) => {
    const page = await visit(address);
    assert.equal(await page.locator(".warning:has-text('can\\'t be shown')").count(), 1);
    await page.locator("nav button").nth(1).click();
    assert.equal(await page.getAttribute("article", "data-schema"), "prony.profile/1");
    await leave(page);
  });
});

test("what is no report is one clear error", () => {
  const program = process.env.PRONY ?? path.join(BUILD, "prony");
  writeFileSync(path.join(folder, "other.json"), '{"schema": "other/1"}');
  writeFileSync(path.join(folder, "other.html"), "<html></html>");
  const cases = [
    [["other.json"], /'other.json' is not a prony report: its schema is 'other\/1'/],
    [["other.html"], /'other.html' is not a prony page/],
    [["missing.json"], /cannot read 'missing.json'/],
    [[data("profile-single.json"), "--address", "0.0.0.0:0"], /'0.0.0.0:0' is not an address of this machine alone/],
    [[data("mlp.onnx")], /mlp.onnx/],
  ];
  for (const [argv, expected] of cases) {
    const done = spawnSync(program, ["view", "--no-browser", ...argv], {
      cwd: folder,
      encoding: "utf8",
      timeout: PATIENCE_MS,
    });
    assert.notEqual(done.status, 0);
    assert.match(done.stderr, expected);
    // Misuse also points to --help.
    assert.equal(done.stderr.trim().split("\n").length, done.status === 2 ? 2 : 1);
    assert.equal(done.stdout, "");
  }
});
