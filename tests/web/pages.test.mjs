// Every report opened from disk: nothing goes wrong, figures are the JSON's, and it can be used by
// mouse, by keys, in both themes, on a phone and on paper.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createWriteStream, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, test } from "node:test";
import {
  HOSTILE,
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
  unfold,
  visit,
} from "./browser.mjs";
import { made, names } from "./reports.mjs";

after(close);

// A report's page, made when it is first asked for.
function open(name, options) {
  made(name);
  return visit(`${name}.html`, options);
}

// Pictures that have neither numbers of their own nor a table beside them.
const unnumbered = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll("figure")]
      .filter(
        (figure) => !figure.querySelector("table") && !figure.parentElement.querySelector(":scope > .table table"),
      )
      .map((figure) => figure.querySelector("h3").textContent),
  );

// The first line of every CSV: names that are told apart, in small letters, with their unit.
async function checkHeads(page) {
  await page.evaluate(() => {
    globalThis.saved = [];
    URL.createObjectURL = (blob) => {
      globalThis.saved.push(blob.text());
      return "#";
    };
    HTMLAnchorElement.prototype.click = () => {};
    document.querySelectorAll("button.csv").forEach((button) => button.click());
  });
  const heads = (await page.evaluate(() => Promise.all(globalThis.saved))).map((text) =>
    text.split("\n")[0].split(","),
  );
  assert.ok(heads.length > 0 || (await page.locator("table").count()) === 0);
  for (const head of heads) {
    assert.equal(new Set(head).size, head.length, String(head));
    for (const name of head) assert.match(name, /^[a-z][a-z0-9_]*$/, String(head));
  }
}

for (const name of names)
  test(`the page of ${name}`, async () => {
    const page = await open(name);
    const keep = (what) => shot(page, `${name}-${what}`);
    assert.notEqual((await page.textContent(".verdict")).trim(), "");
    assert.equal(await page.locator(".warning:has-text('can\\'t be shown')").count(), 0);
    await keep("light");
    await page.emulateMedia({ colorScheme: "dark" });
    await settle(page);
    assert.deepEqual(await seriousFaults(page, ["color-contrast"]), []);
    await page.emulateMedia({ colorScheme: "light" });
    await unfold(page);
    assert.deepEqual(await unnumbered(page), []);
    await checkHeads(page);
    assert.deepEqual(await seriousFaults(page), []);
    await page.emulateMedia({ colorScheme: "dark" });
    await settle(page);
    await keep("dark");
    await page.setViewportSize({ width: 360, height: 800 });
    await settle(page);
    assert.ok((await overflow(page)) <= 0, "it scrolls sideways at 360 px");
    await keep("360");
    await leave(page);
  });

test("a page without data is small", () => {
  made("profile-recorded-empty");
  const file = path.join(folder, "profile-recorded-empty.html");
  assert.ok(statSync(file).size < 500000, `${statSync(file).size} bytes`);
});

test("a page is one file that asks for nothing", () => {
  made("profile-several");
  const html = readFileSync(path.join(folder, "profile-several.html"), "utf8");
  const policy = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(html)[1];
  assert.match(policy, /^default-src 'none'; script-src 'sha256-[^' ]+'; style-src 'sha256-[^' ]+'; img-src data:;/);
  assert.doesNotMatch(policy, /unsafe|https?:/);
});

// ---- Figures ----

const close1 = (value, text, unit) => {
  const units = {
    ns: { ns: 1, µs: 1e3, ms: 1e6, s: 1e9 },
    us: { ns: 1e-3, µs: 1, ms: 1e3, s: 1e6 },
    s: { ns: 1e-9, µs: 1e-6, ms: 1e-3, s: 1 },
    bytes: { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 },
  }[unit];
  const [, number, shown] = /^([\d.,e-]+) (ns|µs|ms|s|B|KiB|MiB|GiB)\b/.exec(text);
  const read = Number(number.replaceAll(",", "")) * units[shown];
  assert.ok(Math.abs(read - value) <= 0.006 * Math.abs(value), `${text} for ${value} ${unit}`);
};

function same(cell, value, unit) {
  if (value === null || value === undefined) {
    assert.equal(cell.value, null);
    assert.ok(cell.text === "n/a" || cell.text === "", cell.text);
    return;
  }
  assert.equal(cell.value, value);
  if (unit && value !== 0) close1(value, cell.text, unit);
}

// Results in the order of a page: the shortest time first, what failed last; a sweep keeps its order.
function ordered(name) {
  const { points, results } = made(name);
  const time = (r) => (r.error === null && r.stats ? r.stats.median_ns : Infinity);
  return points.length > 1 ? results : [...results].sort((a, b) => (time(a) === time(b) ? 0 : time(a) - time(b)));
}

test("figures of results are the JSON's", async () => {
  for (const name of ["profile-several", "profile-sweep", "profile-single"]) {
    const page = await open(name);
    const shown = await rows(page, "Results");
    const json = ordered(name);
    assert.equal(shown.length, json.length);
    shown.forEach((row, i) => {
      same(row.Time, json[i].stats?.median_ns, "ns");
      same(row.Spread, json[i].stats?.spread);
      if (row["vs best"]) same(row["vs best"], json[i].ratio?.estimate);
      if (row.Flags) for (const flag of json[i].flags) assert.ok(row.Flags.text.includes(flag));
      if (row.Failure) assert.equal(row.Failure.text, json[i].error?.message ?? "");
      assert.equal(row.Samples.value, json[i].samples_ns.length);
    });
    await leave(page);
  }
});

test("figures of the CSV report are on the page", async () => {
  const csv = prony("report", data("profile-several.json"), "--format", "csv")
    .trim()
    .split("\n")
    .map((l) => l.split(","));
  const column = (name) => csv[0].indexOf(name);
  const page = await open("profile-several");
  const shown = await rows(page, "Results");
  const order = ordered("profile-several").map((r) => made("profile-several").results.indexOf(r));
  shown.forEach((row, i) => {
    for (const [title, name] of [
      ["Inferences", "inferences_per_s"],
      ["$/million", "usd_per_million"],
      ["Peak memory", "peak_bytes"],
    ]) {
      assert.ok(column(name) >= 0, `${name} in ${csv[0]}`);
      const text = csv[order[i] + 1][column(name)];
      same(row[title], text === "" ? null : Number(text));
    }
  });
  await leave(page);
});

test("figures of a trace are the JSON's", async () => {
  const page = await open("trace");
  const shown = await rows(page, "CPU");
  const json = made("trace").cpu.groups;
  assert.equal(shown.length, json.length);
  shown.forEach((row, i) => {
    assert.equal(row.Operator.text, json[i].op);
    same(row.Total, json[i].duration_us, "us");
    same(row.Share, json[i].pct);
    same(row["Per run"], json[i].per_run.mean_us, "us");
    same(row.p90, json[i].per_run.p90_us, "us");
  });
  await leave(page);
});

test("figures of a comparison are the JSON's", async () => {
  const page = await open("comparison");
  const shown = await rows(page, "Comparison");
  made("comparison").files[0].rows.forEach((row, i) => {
    assert.equal(shown[i].Backend.text, `${row.backend} (${row.sizes})`);
    assert.equal(shown[i].Verdict.text, row.verdict);
    same(shown[i]["Time before"], row.time_ns.before, "ns");
  });
  await leave(page);
});

test("figures of a history are the JSON's, and each series has its own curve", async () => {
  const page = await open("history");
  const { series } = made("history");
  const marks = (n) => document.querySelectorAll("figure svg .mark").length === n;
  for (const [i, one] of series.entries()) {
    if (i > 0) await page.selectOption('select[aria-label="Series"]', String(i));
    const shown = await rows(page, "Reports");
    one.points.forEach((point, k) => {
      assert.equal(shown[k].Measured.text, point.created);
      assert.equal(shown[k].Commit.text, point.commit.slice(0, 7));
      if (point.median_ns !== null) same(shown[k].Time, point.median_ns, "ns");
      else assert.ok(shown[k].Time.text.startsWith("failed: Conv"));
    });
    // A dot for each report that didn't fail, and both ends of each level.
    const ends = one.segments.reduce((sum, segment) => sum + Math.min(2, segment.reports), 0);
    await page.waitForFunction(marks, one.measured + ends);
    if (one.changes.length === 0) continue;
    const [change] = await rows(page, "Changes");
    assert.equal(change.Report.text, String(one.changes[0].report));
    same(change["Time after over before"], one.changes[0].ratio.estimate);
  }
  await leave(page);
});

test("figures of a schedule are the JSON's", async () => {
  const page = await open("schedule");
  const shown = await rows(page, "Stages");
  made("schedule").stages.forEach((stage, i) => {
    assert.equal(shown[i].Host.text, stage.host);
    same(shown[i].Time, stage.time_s, "s");
    same(shown[i].Memory, stage.memory_bytes);
    same(shown[i].Link, stage.link?.time_s, "s");
  });
  const slow = await page.textContent(".pipeline .bottleneck");
  assert.ok(slow.includes(made("schedule").stages[made("schedule").bottleneck.stage - 1].host));
  await leave(page);
});

test("a schedule that was tried out begins with what was measured", async () => {
  const page = await open("simulated");
  const json = embedded("simulated.html").reports[0].data;
  const answer = await page.textContent(".verdict");
  assert.equal(answer, json.verdict);
  // One launch has no interval.
  assert.match(answer, /^Measured on this machine: [0-9.]+ inferences per second, [0-9.]+× the predicted /);
  await leave(page);
});

test("an interval beyond the time itself is unknown", async () => {
  made("schedule");
  const types = readFileSync(path.join(folder, "types.yml"), "utf8").replace(/time_ci_s: \[[^,]*,/g, "time_ci_s: [99,");
  writeFileSync(path.join(folder, "wide.yml"), types);
  const hosts = path.join(folder, "one.yml");
  writeFileSync(hosts, "board: [board-0]\n");
  const files = ["-m", "vit-two-blocks", "-M", "models.yml", "-T", "wide.yml", "-D", hosts];
  prony("schedule", ...files, "--format", "html", "--output", "wide.html");
  const page = await visit("wide.html");
  const [stage] = await rows(page, "Stages");
  assert.equal(stage["±"].text, "unknown");
  await leave(page);
});

test("rows of several models are told apart in every choice", async () => {
  const mlp = data("mlp.onnx");
  const options = ["-b", "onnxrt-cpu", "--launches", "1", "--repeats", "2", "--warmups", "0"];
  prony("profile", `old=${mlp}`, `new=${mlp}`, ...options, "--format", "html", "-o", "models.html");
  const page = await visit("models.html");
  assert.deepEqual(await page.locator("select[aria-label=Sizes] option").allTextContents(), ["old all", "new all"]);
  await leave(page);
});

test("figures of measured layers are those of the file", async () => {
  const page = await open("layers");
  const shown = await rows(page, "Layers");
  const json = embedded("layers.html").reports[0].data;
  const yaml = readFileSync(path.join(folder, "results.yml"), "utf8");
  const times = [...yaml.matchAll(/^ {2}time: (.*)$/gm)].map((m) => Number(m[1]));
  assert.equal(times.length, shown.length);
  shown.forEach((row, i) => {
    same(row.Time, json.profile_data[i].time_s, "s");
    assert.equal(row.Time.value, times[i]);
  });
  await leave(page);
});

test("the histogram counts every sample, and the curve has each", async () => {
  const whole = made("profile-several");
  const { data: json, view } = embedded("profile-several.html").reports[0];
  json.results.forEach((result, i) => {
    assert.equal(result.samples_ns, undefined);
    const series = view.results[i].samples;
    const samples = whole.results[i].samples_ns;
    if (samples.length === 0) return;
    assert.equal(series.count, samples.length);
    assert.deepEqual(series.low_ns, samples);
    const { counts, above } = view.results[i].histogram;
    assert.equal(
      counts.reduce((a, b) => a + b, above),
      samples.length,
    );
  });
});

test("the cumulative distribution is of every sample", async () => {
  for (const name of ["profile-several", "profile-single"]) {
    const whole = made(name);
    embedded(`${name}.html`).reports[0].view.results.forEach(({ ecdf }, i) => {
      const sorted = [...whole.results[i].samples_ns].sort((a, b) => a - b);
      if (sorted.length === 0) return;
      assert.equal(ecdf.rank.at(-1), sorted.length);
      ecdf.rank.forEach((rank, k) => {
        assert.equal(ecdf.ns[k], sorted[rank - 1]);
        if (k > 0) assert.ok(rank > ecdf.rank[k - 1]);
      });
    });
  }
});

test("recorded segments, calls and failures", async () => {
  const page = await open("profile-recorded-program");
  const json = made("profile-recorded-program");
  await page.locator("summary:has-text('Numbers')").first().click();
  const shown = await rows(page, `Segments of ${await page.textContent(".function")}`);
  const graphs = json.profiles[0].segments.filter((s) => s.graph !== null);
  const means = graphs.flatMap((s) => s.results.map((r) => r.times.mean_ns));
  for (const mean of means.filter((m) => m !== null)) assert.ok(shown.some((row) => row.Mean.value === mean));
  const flags = (await rows(page, `Totals of ${await page.textContent(".function")}`)).map((row) => row.Flags.text);
  assert.deepEqual(flags, ["", "", "MISMATCH"]);
  assert.ok(
    shown.some((row) => row.Why.text.startsWith("MISMATCH: outputs differ from those computed locally, by up to 25")),
  );
  const failing = json.profiles.findIndex((p) => p.segments.some((s) => s.results.some((r) => r.failed > 0)));
  assert.ok(failing >= 0);
  await page.selectOption("select", String(failing));
  await settle(page);
  assert.ok((await page.locator("svg .failed").count()) > 0);
  await leave(page);
});

test("a graph that ran locally isn't shown as run on a backend", async () => {
  const page = await open("profile-recorded-program");
  const json = made("profile-recorded-program");
  const local = json.graphs.find((g) => g.local_reason);
  const index = json.profiles.findIndex((p) => p.segments.some((s) => s.graph === local.id));
  await page.selectOption("select", String(index));
  await settle(page);
  await page.locator("summary:has-text('Numbers')").first().click();
  const shown = await rows(page, `Segments of ${await page.textContent(".function")}`);
  const mine = shown.filter((row) => row.Name.text === local.name);
  assert.ok(mine.length > 0 && mine.every((row) => row.Backend.text === "(local)"));
  const parts = page.locator("svg[aria-label^='Segments'] g", {
    has: page.locator(`text:has-text("${local.name}, local")`),
  });
  for (const part of await parts.all()) assert.equal(await part.locator("rect.quiet").count(), 1);
  await leave(page);
});

test("no graph has the colour of local code", async () => {
  const page = await open("profile-recorded-many");
  assert.ok(made("profile-recorded-many").graphs.length >= 7);
  assert.ok((await page.locator("svg[aria-label^='Segments'] rect[fill^='var(--series-']").count()) > 0);
  assert.equal(await page.locator("svg[aria-label^='Segments'] rect[fill='var(--series-7)']").count(), 0);
  await leave(page);
});

test("signs of a comparison are those of the verdicts", async () => {
  const page = await open("comparison");
  const json = made("comparison").files[0].rows.filter((r) => r.time_ns.ratio !== null);
  const drawn = await page
    .locator("svg[aria-label^='Times after over before'] :is(.more, .less, .open)")
    .evaluateAll((all) => all.map((e) => e.getAttribute("class")));
  assert.deepEqual(
    drawn,
    json.map((r) => ({ slower: "more", faster: "less" })[r.verdict] ?? "open"),
  );
  assert.ok(drawn.includes("open"));
  await leave(page);
});

// ---- Use ----

test("tables are sorted by mouse and by keys", async () => {
  const page = await open("profile-sweep");
  const values = async () => (await rows(page, "Results")).map((r) => r.Time.value);
  const head = page.locator(".s-results thead th", { hasText: /^Time/ });
  await head.locator("button").click();
  assert.equal(await head.getAttribute("aria-sort"), "descending");
  assert.deepEqual(
    await values(),
    [...(await values())].sort((a, b) => b - a),
  );
  await head.locator("button").focus();
  await page.keyboard.press("Enter");
  assert.equal(await head.getAttribute("aria-sort"), "ascending");
  assert.deepEqual(
    await values(),
    [...(await values())].sort((a, b) => a - b),
  );
  await leave(page);
});

test("tables are filtered", async () => {
  const page = await open("profile-several");
  await page.locator(".s-times summary").first().click();
  const before = (await rows(page, "Distribution")).length;
  await page.fill("input[aria-label='Filter Distribution']", "onnxrt-cuda");
  const shown = await rows(page, "Distribution");
  assert.ok(shown.length > 0 && shown.length < before);
  assert.ok(shown.every((r) => r.Backend.text.includes("onnxrt-cuda")));
  await page.fill("input[aria-label='Filter Distribution']", "nothing is called so");
  assert.equal((await rows(page, "Distribution")).length, 0);
  await leave(page);
});

test("numbers are saved as CSV, to the last digit", async () => {
  const page = await open("profile-several");
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.click("button[aria-label='Results as CSV']"),
  ]);
  assert.equal(download.suggestedFilename(), "results.csv");
  const lines = readFileSync(await download.path(), "utf8")
    .trim()
    .split("\n");
  assert.equal(lines.length, made("profile-several").results.length + 1);
  const time = lines[0].split(",").indexOf("median_ns");
  ordered("profile-several").forEach((r, i) => {
    const text = lines[i + 1].replace(/"[^"]*"/g, "").split(",")[time];
    assert.equal(text, r.stats ? String(r.stats.median_ns) : "");
  });
  await leave(page);
});

test("flags are explained when pointed at and focused", async () => {
  const page = await open("profile-several");
  const flag = page.locator(".flag", { hasText: "NOISY" }).first();
  await flag.hover();
  assert.match(await page.textContent("#tip"), /other work disturbed/);
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#tip").isHidden(), true);
  await flag.focus();
  assert.match(await page.textContent("#tip"), /other work disturbed/);
  await leave(page);
});

test("a chart is read by arrow keys", async () => {
  const page = await open("profile-ops");
  const chart = page.locator("svg[aria-label^='Operators and their nodes']");
  await chart.focus();
  await page.keyboard.press("ArrowRight");
  assert.match(await page.textContent("#tip"), /^Conv: 9.00 ms/);
  await page.keyboard.press("ArrowRight");
  assert.notEqual(await page.textContent("#tip"), null);
  assert.equal(await page.locator("svg .current").count(), 1);
  await page.keyboard.press("Escape");
  await leave(page);
});

test("a point of a chart says what it is", async () => {
  const page = await open("profile-load");
  await page.locator("svg[aria-label^='Load against latency'] .mark").first().hover();
  assert.match(await page.textContent("#tip"), /p50: /);
  assert.match(await page.textContent("svg .limit-name"), /limit 100 ms/);
  await leave(page);
});

test("a limit that lone requests miss isn't called unknown", async () => {
  const page = await open("profile-load");
  const held = (await rows(page, "Highest rates")).map((row) => row["Holds up to"].text);
  assert.deepEqual(held, ["39.00/s", "no rate", "not known"]);
  assert.match(await page.textContent("body"), /cannot hold p99 ≤ 12.0 ms/);
  await leave(page);
});

test("a rate that isn't known to hold isn't called a failure", async () => {
  const page = await open("profile-load");
  const text = await page.evaluate(
    () => document.querySelector("svg[aria-label^='Load against latency']").closest("figure").textContent,
  );
  for (const verdict of ["holds the limit", "fails", "not known"]) assert.ok(text.includes(`p99, ${verdict}`), text);
  await leave(page);
});

const range = (page) => page.evaluate(() => document.querySelector(".timeline").shown());

test("the timeline is zoomed and moved", async () => {
  const page = await open("trace");
  const whole = await range(page);
  await page.locator(".timeline").focus();
  await page.keyboard.press("+");
  const closer = await range(page);
  assert.ok(closer[1] - closer[0] < whole[1] - whole[0]);
  await page.keyboard.press("ArrowRight");
  assert.ok((await range(page))[0] > closer[0]);
  await page.click("button[aria-label='Show all']");
  assert.deepEqual(await range(page), whole);
  const box = await page.locator(".timeline canvas").boundingBox();
  await page.locator(".timeline canvas").scrollIntoViewIfNeeded();
  await page.mouse.move(box.x + box.width / 2, (await page.locator(".timeline canvas").boundingBox()).y + 45);
  assert.match(await page.textContent("#tip"), /model_run/);
  await page.keyboard.down("Control");
  await page.mouse.wheel(0, -100);
  await page.keyboard.up("Control");
  await page.waitForFunction((all) => document.querySelector(".timeline").shown()[1] < all, whole[1]);
  await leave(page);
});

test("events are searched for, and a range is summed up", async () => {
  const page = await open("trace");
  const { timeline } = embedded("trace.html").reports[0].view;
  const { names, ops, spans } = timeline;
  const op = made("trace").cpu.groups[0].op;
  await page.fill("input[aria-label='Search the timeline']", op.toLowerCase());
  const found = spans.name.filter((n, i) => `${names[n]} ${ops[spans.op[i]]}`.toLowerCase().includes(op.toLowerCase()));
  await page.waitForSelector(`text=/^${found.length.toLocaleString("en-US")} events, /`);
  await page.keyboard.press("Enter");
  const [from, to] = await range(page);
  assert.ok(to - from < timeline.duration_us);
  await page.click("button[aria-label='Show all']");
  await page.click("button[aria-label='Sum up what is shown']");
  const sums = await rows(page, "Selected range");
  const wanted = spans.duration_us.reduce((sum, us, i) => sum + (ops[spans.op[i]] === op ? us : 0), 0);
  const own = sums.find((row) => row.Operator.text === op);
  assert.ok(Math.abs(own.Time.value - wanted) < 1e-6 * wanted, `${own.Time.value} for ${wanted}`);
  const other = await visit(page.url());
  assert.deepEqual(await rows(other, "Selected range"), sums);
  await leave(other);
  await page.locator(".timeline").focus();
  await page.keyboard.press("Escape");
  assert.equal(await page.locator(".scroll[aria-label='Selected range']").count(), 0);
  await leave(page);
});

test("two traces have a timeline each, and a node that is picked is found in both", async () => {
  const page = await open("traces-apart");
  const { timelines } = embedded("traces-apart.html").reports[0].view;
  assert.equal(timelines.length, 2);
  const boxes = page.locator(".timeline");
  assert.equal(await boxes.count(), 2);
  await page.locator("input[aria-label='Search the timeline']").nth(1).fill("/add");
  await page.waitForSelector("text=/^1 event, /");
  const picture = (i) =>
    boxes
      .nth(i)
      .locator("canvas")
      .evaluate((canvas) => canvas.toDataURL());
  const before = await picture(1);
  const state = page.locator("section p[role=status]");
  assert.equal(await state.textContent(), "Click a node to find it in both.");
  const conv = timelines[0].names.indexOf("/conv");
  const i = timelines[0].spans.name.indexOf(conv);
  const canvas = boxes.nth(0).locator("canvas");
  await canvas.scrollIntoViewIfNeeded();
  const box = await canvas.boundingBox();
  const middle = timelines[0].spans.start_us[i] + timelines[0].spans.duration_us[i] / 2;
  const x = (middle / timelines[0].duration_us) * box.width;
  for (let y = 30; y < box.height && !/^.conv: /.test(await state.textContent()); y += 8)
    await canvas.click({ position: { x, y } });
  const us = timelines.map((t) => t.spans.duration_us[t.spans.name.indexOf(t.names.indexOf("/conv"))]);
  assert.match(await state.textContent(), new RegExp(`^/conv: ${us[0]} µs in the first, ${us[1]} µs in the second`));
  await page.waitForFunction((old) => document.querySelectorAll(".timeline canvas")[1].toDataURL() !== old, before);
  await leave(page);
});

test("a node that is picked is marked everywhere, and in the address", async () => {
  const page = await open("profile-ops");
  const { nodes } = made("profile-ops").results[0].ops;
  const name = nodes[0].onnx?.name || nodes[0].name;
  await page.locator("summary", { hasText: /^Nodes$/ }).click();
  await page.locator(".scroll[aria-label='Nodes'] tbody tr").first().click();
  assert.equal(await page.locator(".scroll[aria-label='Nodes'] tr.picked").count(), 1);
  assert.equal(await page.locator("svg[aria-label^='Operators and their nodes'] .picked").count(), 1);
  assert.equal(new URLSearchParams(new URL(page.url()).hash.slice(1)).get("node"), name);
  const other = await visit(page.url());
  assert.equal(await other.locator("svg[aria-label^='Operators and their nodes'] .picked").count(), 1);
  await leave(other);
  await leave(page);
});

// A profile whose model is a chain of blocks with a branch in each, of which the runtime fused the last node.
function graphed(file, blocks) {
  const json = JSON.parse(readFileSync(data("profile-ops.json"), "utf8"));
  json.model.graph = [];
  const nodes = [];
  for (let b = 0; b < blocks; b++) {
    const first = json.model.graph.length;
    ["Conv", "Relu", "Conv", "Add"].forEach((op, k) => {
      const inputs = k === 0 ? (first > 0 ? [first - 1] : []) : k === 3 ? [first + 2, first] : [first + k - 1];
      const name = `/stage${b % 10}/block${b}/${k}/${op}`;
      json.model.graph.push({ name, op, inputs, value_bytes: 1000 * (k + 1), weight_bytes: op === "Conv" ? 500 : 0 });
      if (op !== "Add")
        nodes.push({
          ...json.results[0].ops.nodes[0],
          name,
          op,
          onnx: { node: first + k, name, op },
          mean_ns: 1000 + b,
        });
    });
  }
  for (const result of json.results) if (result.ops && !result.ops.error) result.ops.nodes = nodes;
  writeFileSync(path.join(folder, `${file}.json`), JSON.stringify(json));
  prony("report", `${file}.json`, "--format", "html", "-o", `${file}.html`);
}

const readGraph = (page) => page.locator(".graph").first().getAttribute("aria-label");

test("the model's graph: modules open and close, nodes are read, marked and coloured", async () => {
  graphed("graphed", 40);
  const page = await visit("graphed.html");
  await page.locator("figure:has(.graph) summary").click();
  const numbers = await rows(page, "The model's graph");
  assert.equal(numbers.length, 100); // the first of them
  const fused = numbers.filter((row) => row.Operator.text === "Add");
  assert.ok(fused.length > 0);
  const time = Object.keys(numbers[0]).find((title) => title.startsWith("Time"));
  for (const row of numbers) assert.equal(row[time].value === null, row.Operator.text === "Add");
  assert.match(await page.textContent("figure:has(.graph) figcaption"), /40 of 160 nodes are not run by themselves/);
  await page.click("button:has-text('Close all')");
  await page.waitForFunction(() => location.hash.includes("open.graph"));
  await page.locator(".graph").first().focus();
  await page.keyboard.press("ArrowDown");
  const told = page.locator("figure:has(.graph) [role=status].unseen");
  assert.match(await told.textContent(), /^\/stage0, 16 nodes, /);
  await page.keyboard.press("Enter"); // opens it
  assert.match(await told.textContent(), /^\/stage0\/block0, 4 nodes, .* 1 of them not run by themselves/);
  await page.keyboard.press("Enter");
  assert.match(await told.textContent(), /^\/stage0\/block0\/0\/Conv, Conv, 1.00 µs per run/);
  await page.keyboard.press("Enter");
  assert.match(decodeURIComponent(page.url()), /node=\/stage0\/block0\/0\/Conv/);
  assert.equal(await page.locator('.scroll[aria-label="The model\'s graph"] tr.picked').count(), 1);
  for (const by of ["FLOP/s", "Memory"]) {
    await page.selectOption("select[aria-label='Coloured by']", { label: by });
    await settle(page);
    assert.ok((await readGraph(page)).length > 0);
  }
  assert.deepEqual(await seriousFaults(page), []);
  await shot(page, "graph");
  await leave(page);
});

test("a graph of 2,000 nodes is drawn with few elements", async () => {
  graphed("large-graph", 500);
  const page = await visit("large-graph.html");
  await page.click("button:has-text('Open all modules')");
  const elements = await zoomed(page, ".graph");
  assert.ok(elements < 3000, `${elements} elements`);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.locator("figure:has(.graph) button[aria-label$='as SVG']").click(),
  ]);
  const svg = readFileSync(await download.path(), "utf8");
  assert.ok(svg.match(/<path /g).length > 2000);
  await leave(page);
});

test("samples over time are zoomed", async () => {
  const page = await open("profile-several");
  const scale = () =>
    page.evaluate(() => {
      const { min, max } = document.querySelector(".series").plot.scales.x;
      return max - min;
    });
  const whole = await scale();
  await page.locator(".series").first().focus();
  await page.keyboard.press("+");
  assert.ok((await scale()) < whole);
  await page.keyboard.press("0");
  assert.equal(await scale(), whole);
  await leave(page);
});

test("the theme is changed by the button, and paper is light", async () => {
  const page = await open("profile-several", { scheme: "dark" });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await ground();
  await page.click("button.theme");
  assert.equal(await page.textContent("button.theme"), "Theme: light");
  const light = await ground();
  assert.notEqual(light, dark);
  await page.click("button.theme");
  assert.equal(await ground(), dark);
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  assert.equal(await ground(), light);
  await page.emulateMedia({ media: "print" });
  await page.setViewportSize({ width: 720, height: 1000 });
  assert.ok((await overflow(page)) <= 0, "a table is cut off on paper");
  // Every choice is printed, with its name.
  const printed = await page.locator(".s-times h3").allTextContents();
  for (const title of ["Distribution: Histogram", "Distribution: Cumulative, logarithmic"])
    assert.ok(printed.includes(title), String(printed));
  assert.ok((await page.locator(".s-times svg[aria-label^='Cumulative distribution']").count()) > 0);
  await page.evaluate(() => dispatchEvent(new Event("afterprint")));
  assert.equal(await page.locator(".s-times svg[aria-label^='Cumulative distribution']").count(), 0);
  await shot(page, "print");
  await leave(page);
});

test("a sweep is seen along each of its axes", async () => {
  const page = await open("profile-sweep");
  const titles = [];
  for (const along of await page.locator("select[aria-label='Along'] option").all()) {
    await page.selectOption("select[aria-label='Along']", await along.getAttribute("value"));
    for (const show of await page.locator("select[aria-label='Show'] option").allTextContents()) {
      await page.selectOption("select[aria-label='Show']", { label: show });
      await settle(page);
      titles.push(await page.textContent(".s-sweep h3"));
      assert.ok((await page.locator(".s-sweep svg .mark").count()) > 0);
    }
  }
  for (const title of ["Latency over batch", "Throughput over seq", "Efficiency over threads"])
    assert.ok(titles.includes(title), `${title} in ${titles}`);
  await leave(page);
});

test("two profiles are compared operator by operator", async () => {
  const page = await open("operators");
  await page.locator(".s-what-changed figure", { hasText: "Operator by operator" }).locator("summary").click();
  const shown = await rows(page, "Operator by operator");
  const { before, after } = made("operators");
  before.results[0].ops.operators.forEach(({ op, mean_ns }, i) => {
    const row = shown.find((r) => r.Operator.text === op);
    assert.equal(row.Baseline.value, mean_ns);
    assert.equal(row.Time.value, after.results[0].ops.operators[i].mean_ns);
    assert.equal(row.Difference.value, 1000 * (i + 1));
  });
  assert.deepEqual(
    shown.map((r) => r.Difference.value),
    shown.map((_, i) => 1000 * (shown.length - i)),
  );
  await page.locator("nav button").nth(1).click();
  assert.equal(await page.getAttribute("article", "data-schema"), "prony.profile/1");
  await leave(page);
});

// ---- The answer ----

// A profile of two backends whose ratio and verdict are given, as a page.
async function answered(file, change) {
  const json = JSON.parse(readFileSync(data("profile-several.json"), "utf8"));
  json.results = json.results.slice(0, 2);
  for (const result of json.results) {
    result.flags = [];
    result.outputs = [{ name: "prob", max_abs: 0, max_rel: 0, cosine: 1, same_shape: true }];
  }
  json.settings.launches = 0;
  change(json, json.results[0], json.results[1]);
  writeFileSync(path.join(folder, `${file}.json`), JSON.stringify(json));
  prony("report", `${file}.json`, "--format", "html", "-o", `${file}.html`);
  return visit(`${file}.html`);
}

test("the answer says how sure it is, and what to do", async () => {
  const ratio = (verdict, estimate, low, high) => (json, slower) =>
    Object.assign(slower, { verdict, ratio: { estimate, low, high } });
  const cases = [
    ["Certain", ratio("slower", 1.6, 1.44, 1.76), false],
    ["Probably", ratio("unsure", 1.06, 0.99, 1.13), true],
    ["Equal", ratio("same", 1.001, 0.999, 1.003), false],
    ["Can't tell", ratio("unsure", 1.01, 0.9, 1.12), true],
  ];
  for (const [word, change, advised] of cases) {
    const page = await answered("answered", change);
    assert.equal(await page.textContent(".certainty strong"), word);
    assert.equal((await page.locator(".advice").count()) > 0, advised, word);
    assert.match(await page.textContent(".figures"), /Time812 µs/);
    assert.match(await page.getAttribute(".certainty svg", "aria-label"), /^Ratio of times: 1\.\d+ \(/);
    const [first] = await rows(page, "Results");
    assert.match(first.Backend.text, word === "Certain" ? /onnxrt-cuda fastest$/ : /onnxrt-cuda fastest\?$/);
    assert.equal(await page.getAttribute(".s-results tbody tr", "class"), "best");
    await leave(page);
  }
});

test("caveats and outputs that differ are in the answer", async () => {
  const page = await open("profile-several");
  assert.match(await page.textContent(".figures"), /OutputsDIFFER/);
  const caveats = await page.locator(".decision .warning").allTextContents();
  const text = prony("report", data("profile-several.json"));
  const told = text.split("\n").filter((line) => line.startsWith("! "));
  assert.equal(caveats.length, told.length);
  caveats.forEach((caveat, i) => assert.ok(caveat.startsWith(told[i].slice(2, 30)), caveat));
  await leave(page);
});

// The figures of a card: {title: text}.
const cardFigures = (page) =>
  page.evaluate(() =>
    Object.fromEntries(
      [...document.querySelectorAll(".decision dl > div")].map((d) => [
        d.querySelector("dt").textContent,
        d.querySelector("dd").textContent,
      ]),
    ),
  );

test("the answer of a trace has its figures", async () => {
  const page = await open("trace");
  const { ledger, runs, cpu, warnings } = made("trace");
  const shown = await cardFigures(page);
  close1(ledger.run.per_run.mean_us, shown["A run takes"], "us");
  assert.equal(shown["Runs analysed"], `${runs.analysed} of ${runs.found}`);
  assert.ok(shown["Most time"].startsWith(`${cpu.groups[0].op}: `), shown["Most time"]);
  assert.match(await page.getAttribute(".certainty svg", "aria-label"), /^Time of nodes: /);
  const caveats = await page.locator(".decision .warning").allTextContents();
  assert.deepEqual(
    caveats.map((c) => c.toLowerCase()),
    warnings.map((w) => `${w}.`.toLowerCase()),
  );
  await leave(page);
});

test("the answer of a comparison is of the row that became slowest", async () => {
  const page = await open("comparison");
  const all = made("comparison").files.flatMap((f) => f.rows);
  const slower = all.find((r) => r.verdict === "slower");
  const shown = await cardFigures(page);
  assert.equal(shown.Backend, slower.backend);
  assert.equal(shown.Slower, `1 of ${all.length}`);
  close1(slower.time_ns.before, shown.Time, "ns");
  assert.match(shown["Before against after"], /^1\.080× as fast \(1\.078 to 1\.082\)$/);
  assert.equal(await page.textContent(".certainty strong"), "Certain");
  assert.match(await page.getAttribute(".certainty svg", "aria-label"), /^Ratio of times: 1\.08/);
  await leave(page);
});

test("the answer of two traces has a ratio only if there are enough runs", async () => {
  const few = await open("traces");
  assert.equal(await few.textContent(".certainty strong"), "Can't tell");
  assert.equal(await few.locator(".certainty svg").count(), 0);
  assert.doesNotMatch(await few.textContent(".figures"), /as fast/);
  await leave(few);
  const page = await open("traces-apart");
  const { run } = made("traces-apart");
  const shown = await cardFigures(page);
  close1(run.first_median_us, shown["A run in the first"], "us");
  close1(run.second_median_us, shown["A run in the second"], "us");
  assert.match(shown["First against second"], /^1\.\d+× as fast \(1\.\d+ to 1\.\d+\)$/);
  assert.equal(await page.textContent(".certainty strong"), "Certain");
  await leave(page);
});

test("the memory of a run is drawn node by node, with its peak", async () => {
  const page = await open("memory");
  const { memory } = embedded("memory.html").reports[0].view.timeline;
  const peak = made("memory").memory.allocators[0];
  assert.equal(memory.run, peak.peak_run);
  assert.equal(memory.peak_bytes, peak.peak_bytes);
  const at = memory.allocator_peak_bytes.indexOf(memory.peak_bytes);
  assert.equal(memory.node[at], peak.peak_node);
  const figure = page.locator("figure", { has: page.getByRole("heading", { name: "Memory in run 0" }) });
  await figure.locator("rect.level").first().waitFor();
  assert.equal(await figure.locator("rect.level").count(), memory.node.length);
  const grown = memory.after_bytes.filter((after, i) => after > memory.before_bytes[i]);
  assert.equal(await figure.locator("rect.grown").count(), grown.length);
  assert.equal(await figure.locator("path.peak").count(), 1);
  // What is clicked is marked in the table.
  await figure.locator("summary").click();
  await figure
    .locator("g", { has: page.locator("rect.grown") })
    .first()
    .click();
  const first = memory.node[memory.after_bytes.findIndex((after, i) => after > memory.before_bytes[i])];
  await figure.locator("tr.picked", { hasText: first }).waitFor();
  const cells = await rows(page, "Memory of nodes");
  same(cells[0].After, memory.after_bytes[0], "bytes");
  await leave(page);
});

test("nodes have their place below the roof", async () => {
  const page = await open("profile-roofs");
  const { ops } = made("profile-roofs").results.find((r) => r.ops?.operators.some((o) => o.roof));
  const operators = await rows(page, "Operators");
  ops.operators.forEach((o, i) => {
    assert.equal(operators[i].Roof.text, o.roof ?? "");
    same(operators[i]["Of the roof"], o.roof_share);
  });
  const placed = ops.nodes.filter((n) => n.roof && n.bytes && n.flops && n.flop_per_s);
  assert.ok(placed.length > 0);
  const figure = page.locator("figure", { has: page.getByRole("heading", { name: "Roofline" }) });
  await figure.locator("svg [stroke-width='2']").first().waitFor();
  await figure.locator("summary").click();
  const shown = await rows(page, "Roofs");
  assert.deepEqual(new Set(shown.map((r) => r.Node.text)), new Set(placed.map((n) => n.name)));
  for (const node of placed) {
    const row = shown.find((r) => r.Node.text === node.name);
    same(row["Of the roof"], node.roof_share);
    same(row["FLOP per byte"], node.flops / node.bytes);
  }
  await leave(page);
  const without = await open("profile-ops");
  assert.equal(await without.getByRole("heading", { name: "Roofline" }).count(), 0);
  await leave(without);
});

test("kernels and memory of two traces are on their page", async () => {
  const kernels = await open("traces");
  const shown = await rows(kernels, "GPU kernels");
  made("traces").kernels.forEach((row, i) => {
    assert.equal(shown[i].Name.text, row.kernel);
    same(shown[i].Second, row.second_median_us, "us");
    assert.equal(shown[i].Verdict.text, row.verdict);
  });
  await leave(kernels);
  const page = await open("traces-memory");
  const { memory } = made("traces-memory");
  const cells = await rows(page, "Memory");
  assert.equal(cells.length, memory.groups.length);
  memory.groups.forEach((group, i) => {
    assert.equal(cells[i].Name.text, group.op);
    same(cells[i]["Growth, first"], group.first?.growth_bytes ?? null, "bytes");
    same(cells[i]["Live, second"], group.second?.live_bytes ?? null, "bytes");
  });
  assert.match(await page.textContent("main"), /Peak of CPUExecutionProvider/);
  await leave(page);
});

test("the answers of layers and schedules have their figures", async () => {
  const planned = await open("schedule");
  const schedule = made("schedule");
  const figures = await cardFigures(planned);
  close1(schedule.latency_s, figures["Latency, predicted"], "s");
  assert.equal(figures.Hosts, String(schedule.stages.length));
  assert.match(figures.Bottleneck, new RegExp(`^stage ${schedule.bottleneck.stage}, `));
  await leave(planned);
  const tried = await open("simulated");
  const both = await cardFigures(tried);
  for (const title of ["Throughput, measured", "Throughput, predicted", "Latency, measured", "Latency, predicted"])
    assert.ok(both[title], title);
  await leave(tried);
  const measured = await open("layers");
  const layers = embedded("layers.html").reports[0].data;
  const slowest = layers.profile_data.reduce((a, b) => (b.time_s > a.time_s ? b : a));
  const each = await cardFigures(measured);
  assert.match(each.Slowest, new RegExp(`^layer ${slowest.layer}: `));
  close1(layers.sum.time_s, each["All layers"], "s");
  await leave(measured);
  const listed = await open("list");
  assert.equal((await cardFigures(listed)).Layers, String(made("list").layers.length));
  await leave(listed);
});

test("what bears on trust is on the page", async () => {
  const page = await open("profile-several");
  const json = made("profile-several");
  const shown = await page.textContent(".s-how-it-was-measured");
  for (const text of [json.environment.cpu, "0.13 before, 1.5 after", "seccomp and Landlock", "60.0 s", "0.500 %"])
    assert.ok(shown.includes(text), text);
  const inputs = await rows(page, "Inputs");
  assert.equal(inputs[0].Shape.text, json.points[0].inputs[0].shape.join("×"));
  const processes = await rows(page, "Backends and their processes");
  json.results.forEach((r, i) => {
    assert.equal(processes[i].Processes.value, r.launches.length);
    assert.equal(processes[i].Runs.value, r.samples_ns.length);
    for (const flag of r.flags) assert.notEqual(processes[i].Caution.text, "", flag);
  });
  await leave(page);
});

// ---- Taking things along ----

test("every picture is saved as SVG that stands alone", async () => {
  for (const name of ["profile-several", "profile-ops", "profile-sweep", "trace", "comparison", "schedule"]) {
    const page = await open(name);
    const buttons = page.locator("button[aria-label^='Save'][aria-label$='as SVG']");
    assert.equal(await buttons.count(), await page.locator("figure").count(), name);
    for (const button of await buttons.all()) {
      const [download] = await Promise.all([page.waitForEvent("download"), button.click()]);
      const text = readFileSync(await download.path(), "utf8");
      assert.match(download.suggestedFilename(), /\.svg$/);
      const faults = await page.evaluate((xml) => {
        const parsed = new DOMParser().parseFromString(xml, "image/svg+xml");
        if (parsed.querySelector("parsererror")) return parsed.textContent;
        return /var\(--|class=/.exec(xml)?.[0] ?? (parsed.querySelectorAll("*").length > 5 ? "" : "it is empty");
      }, text);
      assert.equal(faults, "", `${name}: ${download.suggestedFilename()}`);
    }
    await leave(page);
  }
});

test("the report, tables and pictures are copied", async () => {
  const page = await open("profile-several");
  // Whether a page from disk may use the clipboard is for the browser to say: it is given one that it may.
  await page.evaluate(() => {
    globalThis.copied = [];
    Object.defineProperty(navigator, "clipboard", {
      value: {
        writeText: async (text) => void globalThis.copied.push(text),
        write: async ([item]) => void globalThis.copied.push(await item.getType("image/png")),
      },
    });
  });
  const copy = async (label) => {
    const before = await page.evaluate(() => globalThis.copied.length);
    await page.click(`button[aria-label='${label}']`);
    await page.waitForFunction((n) => globalThis.copied.length > n, before);
    return page.evaluate(async () => {
      const last = globalThis.copied.at(-1);
      return typeof last === "string" ? last : { type: last.type, size: last.size };
    });
  };
  const markdown = prony("report", data("profile-several.json"), "--format", "md");
  assert.equal(await copy("Copy as Markdown: the report"), markdown);
  const table = (await copy("Copy Results as Markdown")).split("\n");
  assert.match(table[0], /^\| Backend \| Time \|/);
  assert.equal(table.length, made("profile-several").results.length + 3);
  for (const label of ["Copy Distribution as PNG", "Copy Samples over time as PNG", "Copy the answer as PNG"]) {
    const { type, size } = await copy(label);
    assert.equal(type, "image/png");
    assert.ok(size > 2000, `${label}: ${size} bytes`);
  }
  await leave(page);
});

test("a page has the names of files in every text, not their folders", async () => {
  const json = JSON.parse(readFileSync(data("profile-several.json"), "utf8"));
  json.model.path = "/home/some_body/models*/net.onnx";
  json.results[0].error = { code: "PRONY_ERUNTIME", message: "cannot read '/home/some_body/models*/net.onnx'" };
  writeFileSync(path.join(folder, "folders.json"), JSON.stringify(json));
  prony("report", "folders.json", "--format", "html", "-o", "folders.html");
  const { view } = embedded("folders.html").reports[0];
  for (const text of [view.text, view.markdown, view.warnings]) {
    assert.ok(text.includes("net.onnx"));
    assert.doesNotMatch(text, /some\\?_body/);
  }
});

// ---- The address ----

test("a link shows what one saw", async () => {
  const page = await open("profile-sweep");
  await page.selectOption("select[aria-label='Along']", { label: "threads" });
  await page.selectOption("select[aria-label='Show']", { label: "Efficiency" });
  await page.locator(".s-results thead th", { hasText: /^Time/ }).locator("button").click();
  await page.locator(".s-times summary").first().click();
  await page.fill("input[aria-label='Filter Distribution']", "threads=2");
  await page.waitForFunction(() => location.hash.includes("filter.distribution"));
  const seen = async (p) => [
    await p.textContent(".s-sweep h3"),
    (await rows(p, "Results")).map((r) => r.Time.value),
    (await rows(p, "Distribution")).map((r) => r.Backend.text),
  ];
  const mine = await seen(page);
  assert.equal(mine[0], "Efficiency over threads");
  const other = await visit(page.url());
  assert.deepEqual(await seen(other), mine);
  await leave(other);
  // Back undoes choices, one by one.
  await page.goBack();
  await settle(page);
  assert.equal(await page.textContent(".s-sweep h3"), "Latency over threads");
  await page.goBack();
  await settle(page);
  assert.equal(await page.textContent(".s-sweep h3"), "Latency over batch");
  await leave(page);
});

test("sections have addresses", async () => {
  const page = await open("profile-several");
  await page.locator(".s-cost .anchor").click();
  assert.match(page.url(), /#at=s-cost$/);
  const other = await visit(page.url());
  await other.waitForFunction(() => {
    const { top } = document.querySelector("#s-cost").getBoundingClientRect();
    return top >= -1 && top < innerHeight;
  });
  await leave(other);
  await leave(page);
});

// ---- What disturbed machines give ----

test("an interval that is far too wide flattens nothing", async () => {
  const json = JSON.parse(readFileSync(data("profile-sweep.json"), "utf8"));
  Object.assign(json.results[0].stats, {
    low_ns: 0.001 * json.results[0].stats.low_ns,
    high_ns: 1e6 * json.results[0].stats.high_ns,
  });
  writeFileSync(path.join(folder, "wide.json"), JSON.stringify(json));
  prony("report", "wide.json", "--format", "html", "-o", "wide.html");
  const page = await visit("wide.html");
  const heights = await page.evaluate(() =>
    [...document.querySelectorAll(".s-sweep svg .mark > :last-child")].map((mark) => mark.getBoundingClientRect().top),
  );
  assert.ok(Math.max(...heights) - Math.min(...heights) > 100, String(heights));
  // What goes on beyond the picture stays inside of it.
  assert.deepEqual(
    await page.evaluate(() =>
      [...document.querySelectorAll(".s-sweep svg, .s-times svg")].flatMap((svg) => {
        const whole = svg.getBoundingClientRect();
        return [...svg.querySelectorAll(".mark path, .mark rect:not(.hit)")]
          .map((e) => e.getBoundingClientRect())
          .filter((box) => box.top < whole.top - 1 || box.left < whole.left - 1 || box.right > whole.right + 1)
          .map((box) => [box.top, box.right]);
      }),
    ),
    [],
  );
  await shot(page, "wide");
  await leave(page);
});

test("a run that took far longer flattens no trace", async () => {
  made("trace");
  const list = Array.from({ length: 40 }, (_, i) => [1000 * i, i === 0 ? 900000 : 500 + (i % 7), 400]);
  const html = readFileSync(path.join(folder, "trace.html"), "utf8");
  const content = embedded("trace.html");
  content.reports[0].data.runs = { ...content.reports[0].data.runs, found: 40, list };
  writeFileSync(
    path.join(folder, "slow-start.html"),
    html.replace(
      /(id="prony-data">).*?(<\/script>)/s,
      (_, begin, end) => begin + JSON.stringify(content).replaceAll("<", "\\u003c") + end,
    ),
  );
  const page = await visit("slow-start.html");
  assert.match(await page.textContent("main"), /Triangles at the top are what took longer than/);
  const { max } = await page.evaluate(() => document.querySelector(".series").plot.scales.y);
  assert.ok(max >= 506 && max < 2000, String(max));
  await leave(page);
});

test("a schedule that isn't feasible says why", async () => {
  made("schedule");
  writeFileSync(path.join(folder, "nowhere.yml"), "board: [board-0]\n");
  const types = readFileSync(path.join(folder, "types.yml"), "utf8").replace(/mem_MB: .*/g, "mem_MB: 1");
  writeFileSync(path.join(folder, "small-memory.yml"), types);
  prony(
    "schedule",
    "-m",
    "vit-two-blocks",
    "-M",
    "models.yml",
    "-T",
    "small-memory.yml",
    "-D",
    "nowhere.yml",
    "--format",
    "html",
    "--output",
    "nowhere.html",
  );
  const { data: json } = embedded("nowhere.html").reports[0];
  assert.equal(json.feasible, false);
  assert.ok(json.shortage);
  const page = await visit("nowhere.html");
  assert.equal(await page.textContent(".verdict"), `No schedule is feasible: ${json.shortage}.`);
  await leave(page);
});

test("a few samples that took far longer are told, and flatten nothing", async () => {
  const json = JSON.parse(readFileSync(data("profile-single.json"), "utf8"));
  const samples = json.results[0].samples_ns;
  samples[3] *= 1000;
  samples[5] *= 300;
  writeFileSync(path.join(folder, "outliers.json"), JSON.stringify(json));
  prony("report", "outliers.json", "--format", "html", "-o", "outliers.html");
  const page = await visit("outliers.html");
  assert.match(await page.textContent(".s-times"), /Triangles at the top are what took longer than/);
  const { min, max } = await page.evaluate(() => document.querySelector(".series").plot.scales.y);
  const usual = samples.filter((_, i) => i !== 3 && i !== 5);
  assert.ok(
    min > 0 && min <= Math.min(...usual) && max >= Math.max(...usual) && max < 3 * Math.max(...usual),
    `${min} to ${max}`,
  );
  await page.locator(".s-times summary").last().click();
  assert.equal(Math.max(...(await rows(page, "Samples")).map((row) => row.Time.value)), samples[3]);
  await shot(page, "outliers");
  await leave(page);
});

// ---- Hostile names ----

test("hostile names stay names", async () => {
  const base = JSON.parse(readFileSync(data("profile-ops.json"), "utf8"));
  const others = await Promise.all(
    HOSTILE.map(async (text, i) => {
      const json = structuredClone(base);
      // A NUL can't be in JSON that prony reads.
      const name = text.replaceAll("\u0000", "");
      json.model.path = name.slice(0, 4000);
      json.notes.push(name.slice(0, 4000));
      for (const result of json.results)
        for (const rows of [result.ops?.operators ?? [], result.ops?.nodes ?? []])
          for (const row of rows) {
            if (row.name !== undefined) row.name = name.slice(0, 4000);
            row.op = name.slice(0, 4000);
          }
      json.results[0].error = null;
      writeFileSync(path.join(folder, `hostile-${i}.json`), JSON.stringify(json));
      prony("report", `hostile-${i}.json`, "--format", "html", "-o", `hostile-${i}.html`);
      return name;
    }),
  );
  for (const [i, name] of others.entries()) {
    const html = readFileSync(path.join(folder, `hostile-${i}.html`), "utf8");
    assert.equal(html.match(/<\/script>/g).length, 2, name);
    assert.doesNotMatch(/id="prony-data">(.*?)<\/script>/s.exec(html)[1], /[<>&]/);
    const page = await visit(`hostile-${i}.html`, { width: 360 });
    await unfold(page);
    assert.equal(await page.evaluate(() => globalThis.pwned), undefined);
    assert.equal(await page.evaluate(() => document.querySelectorAll("script, img, iframe").length), 2);
    assert.ok((await overflow(page)) <= 0, name.slice(0, 40));
    if (i < 2) assert.ok((await page.textContent("main")).includes(name));
    if (i === 6) {
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.click("button[aria-label='Operators as CSV']"),
      ]);
      assert.doesNotMatch(readFileSync(await download.path(), "utf8"), /(^|,)"?=/m);
    }
    await shot(page, `hostile-${i}`);
    await leave(page);
  }
});

test("hostile names in a trace stay names", async () => {
  const events = HOSTILE.map((text, i) => ({
    cat: "Node",
    pid: 1,
    tid: 1,
    dur: 10,
    ts: 10 * i,
    ph: "X",
    name: `${text}_kernel_time`,
    args: { op_name: text, provider: text, node_index: String(i) },
  }));
  events.push({ cat: "Session", pid: 1, tid: 1, dur: 200, ts: 0, ph: "X", name: "model_run", args: {} });
  writeFileSync(path.join(folder, "hostile-trace.json"), JSON.stringify(events));
  prony("explore", "hostile-trace.json", "--by", "node,provider", "--format", "html", "-o", "hostile-trace.html");
  const page = await visit("hostile-trace.html", { width: 360 });
  await unfold(page);
  assert.equal(await page.evaluate(() => globalThis.pwned), undefined);
  assert.equal(await page.evaluate(() => document.querySelectorAll("script, img, iframe").length), 2);
  assert.ok((await overflow(page)) <= 0);
  const shown = await rows(page, "CPU");
  for (const text of HOSTILE.slice(0, 6))
    assert.ok(
      shown.some((row) => row.Node.text === text),
      text.slice(0, 40),
    );
  await shot(page, "hostile-trace");
  await leave(page);
});

// ---- Big data ----

// Zooms by keys, and says how many elements the page has at most: what it takes to draw depends on that.
const zoomed = (page, selector) =>
  page.evaluate(async (wanted) => {
    const element = document.querySelector(wanted);
    let most = 0;
    for (const key of ["+", "+", "+", "ArrowRight", "ArrowRight", "-", "-", "+", "ArrowLeft", "0"]) {
      element.dispatchEvent(new KeyboardEvent("keydown", { key }));
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      most = Math.max(most, document.querySelectorAll("*").length);
    }
    return most;
  }, selector);

test("a million samples are thinned, and nothing extreme is lost", async () => {
  const json = JSON.parse(readFileSync(data("profile-single.json"), "utf8"));
  const n = 1000000;
  const samples = Array.from({ length: n }, (_, i) => 1000000 + ((i * 7919) % 1009));
  samples[123456] = 5000000;
  samples[654321] = 900000;
  Object.assign(json.results[0], {
    samples_ns: samples,
    launch: samples.map((_, i) => Math.floor((5 * i) / n)),
    block: samples.map((_, i) => Math.floor((100 * i) / n)),
  });
  json.results[0].launches = Array.from({ length: 5 }, () => json.results[0].launches[0]);
  writeFileSync(path.join(folder, "million.json"), JSON.stringify(json));
  prony("report", "million.json", "--format", "html", "-o", "million.html");
  assert.ok(statSync(path.join(folder, "million.html")).size < 1 << 20);
  const { samples: series, histogram } = embedded("million.html").reports[0].view.results[0];
  assert.equal(series.count, n);
  assert.equal(Math.max(...series.high_ns), 5000000);
  assert.equal(Math.min(...series.low_ns), 900000);
  series.median_ns.forEach((ns, i) => {
    const size = series.samples[i];
    const first = series.samples.slice(0, i).reduce((a, b) => a + b, 0);
    if (i % 500 === 0) assert.equal(ns, samples.slice(first, first + size).sort((a, b) => a - b)[Math.floor(size / 2)]);
    assert.ok(series.low_ns[i] <= ns && ns <= series.high_ns[i]);
  });
  assert.equal(
    series.samples.reduce((a, b) => a + b),
    n,
  );
  assert.equal(
    histogram.counts.reduce((a, b) => a + b, histogram.above),
    n,
  );
  const page = await visit("million.html");
  assert.equal((await rows(page, "Results"))[0].Samples.value, n);
  // A band, and no points, which would look like two kinds of samples.
  const drawn = await page.evaluate(() => {
    const { plot } = document.querySelector(".series");
    return { bands: plot.bands.length, points: plot.series.slice(1).map((s) => s.points.show(plot, 1, 0, 1)) };
  });
  assert.deepEqual(drawn, { bands: 1, points: [false, false, false] });
  await shot(page, "million");
  const elements = await zoomed(page, ".series");
  assert.ok(elements < 1000, `${elements} elements`);
  await leave(page);
});

test("a trace of a million events is thinned, and the longest are kept", async () => {
  const n = 1000000;
  const file = createWriteStream(path.join(folder, "many.json"));
  file.write("[");
  for (let i = 0; i < n;) {
    let text = "";
    for (const end = i + 10000; i < end; i++)
      text += `{"cat":"Node","pid":1,"tid":${1 + (i % 2)},"dur":${i === 777 ? 500 : 1},"ts":${5 * i},"ph":"X","name":"node_${i % 5000}_kernel_time","args":{"op_name":"Op${i % 20}","provider":"CPUExecutionProvider"}},\n`;
    if (!file.write(text)) await once(file, "drain");
  }
  file.end(`{"cat":"Session","pid":1,"tid":1,"dur":${5 * n},"ts":0,"ph":"X","name":"model_run","args":{}}]`);
  await once(file, "finish");
  prony("explore", "many.json", "--format", "html", "-o", "many.html");
  assert.ok(statSync(path.join(folder, "many.html")).size < 2 << 20);
  const { timeline, nodes, nodes_left_out } = embedded("many.html").reports[0].view;
  assert.equal(timeline.events, n + 1);
  assert.equal(timeline.shown, 20000);
  assert.ok(timeline.spans.duration_us.includes(500));
  assert.equal(
    timeline.rest.count.reduce((a, b) => a + b),
    n + 1 - 20000,
  );
  assert.equal(nodes.length, 2000);
  assert.equal(nodes_left_out, 3000);
  const page = await visit("many.html");
  await page.locator(".timeline").focus();
  for (let i = 0; i < 8; i++) await page.keyboard.press("+");
  await shot(page, "many");
  const elements = await zoomed(page, ".timeline");
  assert.ok(elements < 10000, `${elements} elements`);
  await leave(page);
});
