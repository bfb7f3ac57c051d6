// The service's page, with real services, users and sessions.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { after, test } from "node:test";
import {
  HOSTILE,
  close,
  folder,
  leave,
  overflow,
  prony,
  rows,
  seriousFaults,
  settle,
  shot,
  start,
  visitService,
} from "./browser.mjs";
import { Service, eventually, stopAll } from "./service.mjs";

after(async () => {
  stopAll();
  await close();
});

// What a browser says by itself of answers that are errors.
const UNAUTHORIZED = /status of 401/;
const UNREACHABLE = /net::ERR_|status of 401/;

const keep = (page, what) => shot(page, `dashboard-${what}`);
const state = (page, wanted) => page.waitForSelector(`.contact[data-state="${wanted}"]`);

// The states that the page goes through from now on.
async function statesOf(page) {
  const states = [];
  await page.exposeFunction("told", (text) => states.push(text));
  await page.evaluate(() =>
    new MutationObserver(() => globalThis.told(document.querySelector(".contact").dataset.state)).observe(
      document.querySelector(".contact"),
      { attributes: true },
    ),
  );
  return states;
}

async function signIn(page, token) {
  await page.fill("input[name=token]", token);
  await page.click("button:has-text('Sign in')");
}

// Rows of a table, as soon as they are as they should be; none where the table isn't shown.
function until(page, label, what, right) {
  return eventually(`${label}: ${what}`, async () => {
    const shown = (await page.locator(`.scroll[aria-label="${label}"]`).isVisible()) ? await rows(page, label) : [];
    return right(shown) ? shown : null;
  });
}

const texts = (shown, column) => shown.map((row) => row[column].text);

// A small model under this name, in the scratch folder.
function model(name) {
  if (!existsSync(path.join(folder, name))) prony("synth", "mlp", "--layers", "2", "--hidden", "16", "-o", `./${name}`);
  return name;
}

async function measure(service, file, ...options) {
  const process = start([
    "profile",
    file,
    "--server",
    service.address,
    "-b",
    "local/onnxrt-cpu[threads=1]",
    "--launches",
    "1",
    "--repeats",
    "30",
    "--format",
    "json",
    "-o",
    "measured.json",
    ...options,
  ]);
  let said = "";
  process.stderr.on("data", (text) => (said += text));
  assert.equal(await new Promise((done) => process.on("exit", done)), 0, said);
  return JSON.parse(readFileSync(path.join(folder, "measured.json"), "utf8"));
}

// ---- One user, on this machine ----

test("sessions come and go, without reloading", async () => {
  const service = await Service.start("coming");
  const page = await visitService(service.page);
  // Never two requests of a kind at a time.
  const open = new Set();
  let most = 0;
  const kind = (request) => new URL(request.url()).pathname;
  page.on("request", (request) => {
    open.add(request);
    most = Math.max(most, [...open].filter((other) => kind(other) === kind(request)).length);
  });
  for (const end of ["requestfinished", "requestfailed"]) page.on(end, (request) => open.delete(request));
  await state(page, "live");
  await page.evaluate(() => (globalThis.sameDocument = true));
  assert.equal(await page.locator("button:has-text('Sign out')").isVisible(), false);
  assert.match(await page.textContent("#sessions"), /No sessions\./);
  assert.match(await page.textContent("#queue"), /Nobody waits\./);
  await until(page, "Workers", "one that is free", (shown) => shown.length === 1 && shown[0].State.text === "free");
  await service.sessions(async (order) => {
    const backends = ["local/onnxrt-cpu"];
    await order({ open: "first", backends });
    await until(page, "Sessions", "the first", (shown) => shown.length === 1 && shown[0].State.text === "ready");
    await order({ run: "first" });
    const [first] = await until(
      page,
      "Sessions",
      "its model and run",
      (shown) => shown[0]?.Models.value === 1 && shown[0].Runs.value === 1,
    );
    const [worker] = await until(page, "Workers", "one that is held", (shown) => shown[0]?.State.text === "held");
    assert.equal(worker.Session.text, first.Session.text);
    await order({ open: "second", backends });
    await order({ open: "third", backends });
    const queue = await until(page, "Queue", "both in it", (shown) => shown.length === 2);
    assert.deepEqual(
      queue.map((row) => row.Place.value),
      [1, 2],
    );
    assert.deepEqual(texts(queue, "Needs"), ["local/onnxrt-cpu", "local/onnxrt-cpu"]);
    const [hardware] = await until(page, "Hardware", "two wait", (shown) => shown[0]?.Waiting.value === 2);
    assert.deepEqual([hardware.Hosts.value, hardware.Held.value, hardware.Free.value], [1, 1, 0]);
    assert.match(await page.textContent(".card .use"), /1 of 1 host held, 2 waiting/);
    assert.match(await page.textContent(".tiles"), /1 \/ 1 hosts held\s*2 waiting\s*3 sessions/);
    await keep(page, "sessions");
    await order({ close: "first" });
    const left = await until(page, "Queue", "one is left", (shown) => shown.length === 1 && shown[0].Place.value === 1);
    assert.equal(left[0].Session.text, queue[1].Session.text);
    await until(page, "Sessions", "the second is ready", (shown) =>
      shown.some((row) => row.Session.text === queue[0].Session.text && row.State.text === "ready"),
    );
    await order({ close: "second" });
    await order({ close: "third" });
    await until(page, "Sessions", "all are gone", (shown) => shown.length === 0);
    await until(page, "Ended sessions", "three", (shown) => shown.length === 3);
  });
  assert.equal(await page.evaluate(() => globalThis.sameDocument), true);
  assert.equal(most, 1);
  await leave(page);
  await service.stop();
});

test("a measurement is in the history, and its report has the JSON's figures", async () => {
  const service = await Service.start("measuring");
  const page = await visitService(service.page);
  await state(page, "live");
  assert.match(await page.textContent("#measurements"), /Nothing has been measured yet\./);
  const json = await measure(service, model("small.onnx"));
  const [row] = await until(page, "Measurements", "it", (shown) => shown.length === 1);
  assert.equal(row.Model.text, "small.onnx");
  assert.match(row.Backends.text, /local\/onnxrt-cpu/);
  assert.ok(row.Took.value > 0 && row.Size.value > 0);
  // The axis has the time of the measurement alone: round numbers beside one moment are years away.
  const axis = page.locator("svg[aria-label^='Medians over time'] text.axis", { hasText: /^\d{4}-\d\d-\d\d/ });
  await axis.first().waitFor();
  assert.deepEqual(await axis.allTextContents(), [row.Began.text]);
  const [session] = await until(page, "Ended sessions", "its session", (list) => list.length === 1);
  assert.equal(session.Runs.value, 1);
  const [report] = await Promise.all([
    page.context().waitForEvent("page"),
    page.click("#measurements a:has-text('Report')"),
  ]);
  await report.waitForSelector("article");
  await settle(report);
  const shown = await rows(report, "Results");
  assert.equal(shown.length, json.results.length);
  const kept = await page.evaluate(
    async (address) => (await fetch(address)).json(),
    await page.getAttribute("#measurements a:has-text('JSON')", "href"),
  );
  shown.forEach((result, i) => {
    assert.equal(result.Time.value, kept.results[i].stats.median_ns);
    assert.equal(result.Time.value, json.results[i].stats.median_ns);
    assert.equal(result.Samples.value, kept.results[i].samples_ns.length);
  });
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#measurements a:has-text('JSON')")]);
  assert.deepEqual(JSON.parse(readFileSync(await download.path(), "utf8")), kept);
  await keep(report, "report");
  await leave(page);
  await service.stop();
});

test("medians over time: their verdicts are listed, and two are compared", async () => {
  const service = await Service.start("medians");
  const page = await visitService(service.page);
  for (let i = 0; i < 2; i++) await measure(service, model("small.onnx"));
  await state(page, "live");
  const listed = await until(page, "Measurements", "both", (shown) => shown.length === 2);
  const address = await page.getAttribute("#measurements a:has-text('JSON')", "href");
  const newest = await page.evaluate(async (url) => (await fetch(url)).json(), address);
  assert.equal(listed[0].Verdict.text, newest.verdict);
  assert.equal(listed[0].Median.value, newest.results[0].stats.median_ns);
  await page.waitForSelector("svg[aria-label^='Medians over time'] .mark");
  await eventually(
    "both are drawn",
    async () => (await page.locator("svg[aria-label^='Medians over time'] .mark").count()) === 2,
  );
  const [report] = await Promise.all([page.context().waitForEvent("page"), page.click("a:has-text('Compare')")]);
  await report.waitForSelector("article");
  assert.equal(await report.getAttribute("article", "data-schema"), "prony.profile-comparison/1");
  const [compared] = await rows(report, "Comparison");
  assert.equal(compared["Time after"].value, newest.results[0].stats.median_ns);
  await keep(page, "medians");
  await leave(page);
  await service.stop();
});

test("a change is marked where intervals don't touch, and points are chosen by keys", async () => {
  const service = await Service.start("changes");
  const at = (id, low, high) => ({
    id,
    user: "ann",
    yours: true,
    model: "net.onnx",
    backends: "local/onnxrt-cpu",
    created_ms: 1e12 + 36e5 * id,
    duration_ms: 1000,
    report_bytes: 100,
    summary: {
      verdict: `${id}`,
      results: [{ name: "onnxrt-cpu", median_ns: (low + high) / 2, low_ns: low, high_ns: high }],
    },
  });
  const unsure = {
    ...at(5, 1, 2),
    summary: { verdict: "5", results: [{ name: "onnxrt-cpu", median_ns: 9e6, low_ns: null, high_ns: null }] },
  };
  const measurements = [unsure, at(4, 1.0e6, 1.1e6), at(3, 2.0e6, 2.1e6), at(2, 1.05e6, 1.15e6), at(1, 1.0e6, 1.1e6)];
  const page = await visitService(service.page, {
    prepare: (p) => p.route(/api\/measurements/, (route) => route.fulfill({ json: { measurements, more: false } })),
  });
  await state(page, "live");
  await page.waitForSelector("svg[aria-label^='Medians over time'] .mark");
  const said = await page.textContent("svg[aria-label^='Medians over time']");
  assert.equal(said.match(/▲ slower/g).length, 1);
  assert.equal(said.match(/▼ faster/g).length, 1);
  const chart = page.locator("svg[aria-label^='Medians over time']");
  await chart.focus();
  for (const key of ["Home", "Enter", "ArrowRight", "ArrowRight", "Enter"]) await page.keyboard.press(key);
  const link = await page.getAttribute("a:has-text('Compare')", "href");
  assert.match(link, /^\/report\?id=\d+&before=\d+$/);
  const [after, before] = link.match(/\d+/g).map(Number);
  assert.ok(before < after);
  assert.match(page.url(), /before=\d+&after=\d+/);
  await leave(page);
  await service.stop();
});

test("what is older is shown when it is asked for, while the service is busy", async () => {
  const service = await Service.start("history");
  const page = await visitService(service.page);
  await state(page, "live");
  const states = await statesOf(page);
  await service.sessions(async (order) => {
    await order({ many: 70, backends: ["local/onnxrt-cpu"] });
    await until(page, "Ended sessions", "a page of them", (shown) => shown.length >= 50);
    await eventually(
      "all are there",
      async () =>
        (await page.evaluate(async () => (await (await fetch("/api/sessions?limit=200")).json()).sessions.length)) ===
        70,
    );
    // The newest page has come, and older ones with the button.
    const older = page.locator("button[aria-label='Older ended sessions']");
    await until(page, "Ended sessions", "older ones by the button", async (shown) => {
      if (shown.length < 70 && (await older.isVisible())) await older.click();
      return shown.length === 70;
    });
    await eventually("there is nothing older", async () => !(await older.isVisible()));
    assert.ok(texts(await rows(page, "Ended sessions"), "Outcome").every((text) => text === "closed"));
    await order({ many: 1, backends: ["local/onnxrt-cpu"] });
    await until(page, "Ended sessions", "a new one above them", (shown) => shown.length === 71);
    // More than a page of them come while it can't be read: nothing in between is missing afterwards.
    page.expected = /net::ERR_FAILED/;
    await page.route("**/api/sessions*", (route) => route.abort());
    await order({ many: 60, backends: ["local/onnxrt-cpu"] });
    await eventually("it is told", async () =>
      /The history can't be read/.test(await page.textContent("#measurements")),
    );
    await page.unroute("**/api/sessions*");
    await until(page, "Ended sessions", "the newest", (shown) => shown.length === 50);
    await eventually(
      "that is over",
      async () => !/The history can't be read/.test(await page.textContent("#measurements")),
    );
    for (const shown of [100, 100]) {
      await older.click();
      await until(page, "Ended sessions", "older ones", (now) => now.length === shown);
    }
    await page.click("#ended button:has-text('Show all 131')");
    assert.equal((await rows(page, "Ended sessions")).length, 131);
  });
  assert.ok(
    states.every((s) => ["live", "slow"].includes(s)),
    String(states),
  );
  await page.fill("input[aria-label='Filter Ended sessions']", "nothing is called so");
  assert.equal((await rows(page, "Ended sessions")).length, 0);
  await page.fill("input[aria-label='Filter Ended sessions']", "CLOSED");
  assert.equal((await rows(page, "Ended sessions")).length, 131);
  await leave(page);
  await service.stop();
});

// ---- Users ----

test("who has no token stays outside", async () => {
  const service = await Service.start("signing", { tls: true });
  const token = service.token("ann");
  const page = await visitService(service.page, { expected: UNAUTHORIZED });
  await page.waitForSelector("form");
  await state(page, "out");
  assert.deepEqual(await seriousFaults(page), []);
  await keep(page, "sign-in");
  assert.equal(await page.evaluate(() => document.activeElement.name), "token");
  for (const [wrong, said] of [
    ["prony_wrong", /isn't valid/],
    [`${token}x`, /isn't valid/],
    [service.token("node", "--worker"), /worker's/],
  ]) {
    await signIn(page, wrong);
    await eventually("it is refused", async () => said.test(await page.textContent("[role=alert]")));
    assert.equal(await page.locator("#sessions").count(), 0);
    await page.evaluate(() => (document.querySelector("#token-fault").textContent = ""));
  }
  await signIn(page, "also wrong");
  await eventually("it is refused", async () => (await page.textContent("#token-fault")) !== "");
  await keep(page, "wrong-token");
  await page.keyboard.insertText(token);
  await page.keyboard.press("Enter");
  await state(page, "live");
  assert.equal(await page.textContent(".who"), "ann");
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1");
  const cookies = await page.context().cookies();
  assert.equal(cookies.length, 1);
  assert.ok(cookies[0].httpOnly && cookies[0].secure && cookies[0].sameSite === "Strict" && cookies[0].value !== token);
  const left = await page.evaluate(() =>
    [
      location.href,
      document.cookie,
      JSON.stringify(localStorage),
      JSON.stringify(sessionStorage),
      document.documentElement.outerHTML,
    ].join(),
  );
  assert.ok(!left.includes(token));
  // Another window of the same browser is signed in as well, and out when this one is.
  const other = await page.context().newPage();
  await other.goto(service.page);
  await state(other, "live");
  await page.click("button:has-text('Sign out')");
  await page.waitForSelector("form");
  assert.equal(await page.locator("#sessions, .card, .tiles").count(), 0);
  await other.waitForSelector("form");
  assert.match(await other.textContent("#token-fault"), /no longer signed in/);
  assert.equal(await other.locator("#sessions, .card, .tiles").count(), 0);
  assert.deepEqual(await page.context().cookies(), []);
  page.opened[0].faults = page.opened[0].faults.filter((fault) => !UNAUTHORIZED.test(fault));
  await leave(page);
  await service.stop();
});

test("users see and close their own sessions, an administrator all", async () => {
  const service = await Service.start("users", { tls: true });
  const [ann, bob, admin] = [service.token("ann"), service.token("bob"), service.token("chief", "--admin")];
  const enter = async (token) => {
    const page = await visitService(service.page, { expected: /status of 40[134]/ });
    await signIn(page, token);
    await state(page, "live");
    return page;
  };
  await service.sessions(async (order) => {
    const backends = ["local/onnxrt-cpu"];
    await order({ open: "bob's", backends, token: bob });
    await order({ open: "ann's", backends, token: ann });
    const [hers, his, all] = [await enter(ann), await enter(bob), await enter(admin)];
    const [annSession] = await until(hers, "Sessions", "ann's", (shown) => shown.length === 1);
    const [bobSession] = await until(his, "Sessions", "bob's", (shown) => shown.length === 1);
    assert.equal(annSession.User.text, "ann");
    assert.equal(annSession.State.text, "waiting");
    assert.equal(bobSession.User.text, "bob");
    assert.match(await hers.textContent("#sessions"), /1 session of other users\./);
    assert.equal((await hers.textContent("main")).includes("bob"), false);
    assert.equal((await hers.textContent("#sessions")).includes(bobSession.Session.text), false);
    assert.equal(await hers.locator("#sessions button:has-text('Close')").count(), 1);
    const both = await until(all, "Sessions", "both", (shown) => shown.length === 2);
    assert.deepEqual(texts(both, "User").sort(), ["ann", "bob"]);
    assert.equal(await all.locator("#sessions button:has-text('Close')").count(), 2);
    assert.match(await all.textContent(".who"), /chief \(administrator\)/);
    await keep(all, "administrator");
    // Asking for it by hand doesn't help, and /api/close is for one's own.
    for (const page of [hers, all]) {
      const status = await page.evaluate(
        async (session) =>
          (
            await fetch("/api/close", {
              method: "POST",
              headers: { "Content-Type": "application/json" },
              body: JSON.stringify({ session }),
            })
          ).status,
        bobSession.Session.text,
      );
      assert.ok(status === 403 || status === 404, String(status));
    }
    await hers.click("#sessions button:has-text('Close')");
    assert.match(await hers.textContent("dialog"), /gives up its place in the queue/);
    // With keys only: one changes one's mind first.
    const button = his.locator(`button[aria-label="Close session ${bobSession.Session.text}"]`);
    await button.focus();
    await his.keyboard.press("Enter");
    assert.equal(await his.evaluate(() => document.activeElement.textContent), "Keep it");
    assert.deepEqual(await seriousFaults(his), []);
    await shot(his, "dashboard-close", false);
    await his.keyboard.press("Escape");
    assert.equal(await his.locator("dialog").isVisible(), false);
    assert.equal(await button.evaluate((b) => b === document.activeElement), true);
    assert.equal((await rows(his, "Sessions")).length, 1);
    await his.keyboard.press("Enter");
    await his.keyboard.press("Tab");
    await his.keyboard.press("Enter");
    await until(his, "Sessions", "none", (shown) => shown.length === 0);
    // Her question was open meanwhile.
    await eventually("the question is of a session that has its hosts", async () =>
      /its hosts go to the next/.test(await hers.textContent("dialog")),
    );
    await hers.keyboard.press("Escape");
    const [ended] = await until(his, "Ended sessions", "his", (shown) => shown.length === 1);
    assert.equal(ended.User.text, "bob");
    await until(hers, "Sessions", "hers is ready", (shown) => shown[0]?.State.text === "ready");
    await hers.click("#sessions button:has-text('Close')");
    await hers.click("dialog button:has-text('Close the session')");
    await until(hers, "Sessions", "none", (shown) => shown.length === 0);
    await until(hers, "Ended sessions", "hers only", (shown) => shown.length === 1 && shown[0].User.text === "ann");
    await until(all, "Ended sessions", "both", (shown) => shown.length === 2);
    for (const page of [hers, his, all]) await leave(page);
  });
  await service.stop();
});

test("who loses the token is asked for one", async () => {
  const service = await Service.start("revoking", { tls: true });
  const page = await visitService(service.page, { expected: UNREACHABLE });
  await signIn(page, service.token("ann"));
  await state(page, "live");
  prony("token", "revoke", "ann", "--state", service.state);
  await page.waitForSelector("form");
  assert.match(await page.textContent("#token-fault"), /no longer signed in/);
  assert.equal(await page.locator("#sessions").count(), 0);
  // Sign-ins end with the process that knew them.
  await signIn(page, service.token("ann"));
  await state(page, "live");
  await service.stop();
  await state(page, "lost");
  await service.restart();
  await page.waitForSelector("form");
  await leave(page);
  await service.stop();
});

// ---- Contact ----

test("lost contact is told, and found again", async () => {
  const service = await Service.start("lost");
  const page = await visitService(service.page, { expected: UNREACHABLE });
  await state(page, "live");
  await until(page, "Workers", "one", (shown) => shown.length === 1);
  const box = await page.locator("#workers").boundingBox();
  assert.ok(box);
  await service.stop();
  await state(page, "lost");
  assert.match(await page.textContent(".contact"), /^No contact since \d\d:\d\d:\d\d$/);
  assert.match(
    await page.textContent(".lost"),
    /No contact with the service for \d+(\.\d)? s: the service can't be reached\. What is shown is of \d\d:\d\d:\d\d\./,
  );
  assert.match(await page.title(), /^No contact/);
  // What was known is still there, and looks it.
  assert.equal((await rows(page, "Workers")).length, 1);
  assert.equal(await page.locator("main.stale").count(), 1);
  assert.deepEqual(await seriousFaults(page), []);
  await keep(page, "lost");
  // Later and later.
  await eventually(
    "the pauses grow",
    async () => Number(/Next try in (\d+) s/.exec(await page.textContent(".lost"))?.[1]) > 3,
  );
  await service.restart();
  // It may have found the service by itself, and the button is gone then.
  await Promise.all([page.waitForRequest(/api\/status/), page.dispatchEvent("button:has-text('Try now')", "click")]);
  await state(page, "live");
  assert.equal(await page.locator(".lost").isVisible(), false);
  assert.equal(await page.locator("main.stale").count(), 0);
  await until(page, "Workers", "the new one", (shown) => shown.length === 1 && shown[0].State.text === "free");
  // By itself, too, and when nobody closed the connections.
  await service.stop("SIGKILL");
  await state(page, "lost");
  await service.restart();
  await state(page, "live");
  await leave(page);
  await service.stop();
});

test("a service that doesn't answer is slow, then lost", async () => {
  const service = await Service.start("slow");
  const page = await visitService(service.page, { expected: UNREACHABLE });
  await state(page, "live");
  const states = await statesOf(page);
  service.process.kill("SIGSTOP");
  await state(page, "lost");
  assert.deepEqual(states.filter((s, i) => s !== states[i - 1]).slice(-2), ["slow", "lost"]);
  assert.match(await page.textContent(".lost"), /no answer within 10 s/);
  service.process.kill("SIGCONT");
  await state(page, "live");
  await leave(page);
  await service.stop();
});

// ---- Many ----

test("thousands wait, and the page says so and stays small", async () => {
  const service = await Service.start("thousands", {
    tls: true,
    config: "lease: 1h\nquota: {default: none, waiting: none}\n",
  });
  const [ann, bob] = [service.token("ann"), service.token("bob")];
  const waiting = 3000;
  await service.sessions(async (order) => {
    const backends = ["local/onnxrt-cpu"];
    await order({ queue: 1 + waiting, backends, token: ann });
    await order({ open: "bob's", backends, token: bob });
    const [hers, his] = await Promise.all(
      [ann, bob].map(async (token) => {
        const page = await visitService(service.page, { expected: UNREACHABLE });
        await signIn(page, token);
        await state(page, "live");
        return page;
      }),
    );
    // One's own place is seen, however far behind it is, and how many others there are.
    const [mine] = await until(his, "Queue", "his", (shown) => shown.length === 1);
    assert.equal(mine.Place.value, waiting + 1);
    assert.match(await his.textContent("#sessions"), /3,001 sessions of other users\./);
    assert.match(await his.textContent("#queue"), /Not all that wait are listed\. In all: 3,001 for local\./);
    // The first of many, and how many are left out.
    const listed = await until(hers, "Queue", "the first of hers", (shown) => shown.length === 100);
    assert.deepEqual(
      listed.map((row) => row.Place.value),
      Array.from({ length: 100 }, (_, i) => i + 1),
    );
    assert.match(await hers.textContent("#sessions"), /Not listed here: 2,801 sessions\.\s*1 session of other users\./);
    await eventually("the host is held", async () =>
      /1 \/ 1 hosts held\s*3,001 waiting\s*3,002 sessions/.test(await hers.textContent(".tiles")),
    );
    const answer = await hers.evaluate(async () => (await (await fetch("/api/status")).text()).length);
    assert.ok(answer < 128 << 10, `${answer} bytes`);
    await hers.click("#queue button:has-text('Show all')");
    await hers.evaluate(() => {
      globalThis.added = 0;
      new MutationObserver((list) =>
        list.forEach((m) => m.addedNodes.forEach((node) => (globalThis.added += node.nodeName === "TR"))),
      ).observe(document.querySelector("#queue"), { childList: true, subtree: true });
    });
    // While it is asked again and again, all rows of the table stay in the page.
    for (let i = 0; i < 3; i++) await hers.waitForResponse(/api\/status/);
    assert.equal(await hers.evaluate(() => globalThis.added), 0, "an update makes rows anew");
    assert.ok((await hers.evaluate(() => document.querySelectorAll("*").length)) < 5000);
    await hers.click("#queue thead button:has-text('Waited')");
    assert.equal((await rows(hers, "Queue"))[0].Place.value, 1);
    await keep(hers, "thousands");
    await hers.click("#sessions button:has-text('Close') >> nth=0");
    await hers.click("dialog button:has-text('Close the session')");
    await eventually("one less", async () => /3,000 waiting/.test(await hers.textContent(".tiles")));
    for (const page of [hers, his]) await leave(page);
  });
  // Asked to end, it would wait for all of them.
  await service.stop("SIGKILL");
});

// ---- Use ----

const BUSY = `
pools:
  - {name: local, count: 1, usd_per_hour: 0.04, processor: "A processor with a name that is long enough to be cut off on a phone"}
  - {name: spare, count: 1}
`;

test("seen in both themes, on a phone and on paper, with queue, sessions and history", async () => {
  const service = await Service.start("seen", { config: BUSY });
  await measure(service, model("small.onnx"));
  await service.sessions(async (order) => {
    for (let i = 0; i < 12; i++)
      await order({ open: `s${i}`, backends: [i % 4 === 3 ? "spare/onnxrt-cpu" : "local/onnxrt-cpu"] });
    const page = await visitService(service.page);
    await state(page, "live");
    await until(page, "Sessions", "all", (shown) => shown.length === 12);
    await until(page, "Measurements", "one", (shown) => shown.length === 1);
    for (let i = 0; i < 3; i++) await page.waitForResponse(/api\/status/); // for the charts to have something to show
    assert.deepEqual(await seriousFaults(page), []);
    await keep(page, "light");
    await page.emulateMedia({ colorScheme: "dark" });
    await settle(page);
    assert.deepEqual(await seriousFaults(page, ["color-contrast"]), []);
    await keep(page, "dark");
    await page.setViewportSize({ width: 360, height: 800 });
    await settle(page);
    assert.ok((await overflow(page)) <= 0, "it scrolls sideways at 360 px");
    assert.deepEqual(await seriousFaults(page), []);
    await keep(page, "360");
    await page.setViewportSize({ width: 720, height: 1000 });
    await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
    await page.emulateMedia({ media: "print" });
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "light");
    assert.ok((await overflow(page)) <= 0, "a table is cut off on paper");
    await keep(page, "print");
    await leave(page);
  });
  await service.stop();
});

test("sorted, filtered and saved, and nothing is taken from who is using it", async () => {
  const service = await Service.start("used", { config: BUSY });
  await service.sessions(async (order) => {
    for (let i = 0; i < 10; i++)
      await order({ open: `s${i}`, backends: [i % 3 === 2 ? "spare/onnxrt-cpu" : "local/onnxrt-cpu"] });
    const page = await visitService(service.page);
    await until(page, "Sessions", "all", (shown) => shown.length === 10);
    const head = page.locator("#sessions thead th", { hasText: /^Age/ });
    await head.locator("button").focus();
    await page.keyboard.press("Enter");
    assert.equal(await head.getAttribute("aria-sort"), "descending");
    const ages = async () => (await rows(page, "Sessions")).map((row) => row.Age.value);
    const sorted = await ages();
    assert.deepEqual(
      sorted,
      [...sorted].sort((a, b) => b - a),
    );
    await page.fill("input[aria-label='Filter Sessions']", "spare");
    assert.equal((await rows(page, "Sessions")).length, 3);
    // Updates leave the filter, the order, the focus and the scroll where they are.
    const shown = await rows(page, "Sessions");
    const last = page.locator("#sessions tbody tr").last();
    await last.evaluate((row) => (row.marked = true));
    await last.locator("button").focus();
    const place = await page.evaluate(() => scrollY);
    await order({ open: "late", backends: ["spare/onnxrt-cpu"] });
    const more = await until(page, "Sessions", "one more, the youngest last", (now) => now.length === 4);
    assert.deepEqual(texts(more, "Session").slice(0, 3), texts(shown, "Session"));
    await head.locator("button").evaluate((button) => button.click());
    await eventually(
      "they are turned round",
      async () => (await rows(page, "Sessions"))[3].Session.text === shown[0].Session.text,
    );
    assert.equal(await page.evaluate(() => document.activeElement.closest("tr").marked), true);
    assert.equal(await page.evaluate(() => scrollY), place);
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.click("button[aria-label='Sessions as CSV']"),
    ]);
    assert.equal(download.suggestedFilename(), "sessions.csv");
    const lines = readFileSync(await download.path(), "utf8")
      .trim()
      .split("\n");
    assert.equal(lines[0], "session,user,state,age_ms,idle_ms,models,runs,backends,note");
    assert.equal(lines.length, 12);
    // A row whose session ends takes the focus with it no further than its table.
    await page.fill("input[aria-label='Filter Sessions']", "");
    const own = page.locator("#sessions tbody tr", { hasText: "ready" }).filter({ hasText: "local/" });
    await own.locator("button").focus();
    const id = await own.locator("th").textContent();
    await order({ close: "s0" });
    await until(page, "Sessions", "it is gone", (now) => !texts(now, "Session").includes(id));
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Sessions");
    await leave(page);
  });
  await service.stop();
});

test("the last minutes are drawn, read by keys and saved as numbers", async () => {
  const service = await Service.start("drawn");
  const page = await visitService(service.page);
  await state(page, "live");
  await service.sessions(async (order) => {
    await order({ open: "one", backends: ["local/onnxrt-cpu"] });
    await order({ open: "two", backends: ["local/onnxrt-cpu"] });
    await page.click("#hardware summary");
    const held = await until(page, "Hardware over time", "held, and one waits", (shown) =>
      shown.some((row) => row.Held.value === 1 && row.Waiting.value === 1),
    );
    assert.ok(held.every((row) => row.Hosts.value === 1 && row.Hardware.text === "local"));
    const chart = page.locator("svg.live");
    await chart.focus();
    await page.keyboard.press("ArrowLeft");
    assert.match(await page.textContent("#tip"), /1 of 1 host held1 waiting/);
    await page.keyboard.press("Home");
    assert.match(await page.textContent("#tip"), /0 of 1 host held0 waiting/);
    const before = (await rows(page, "Hardware over time")).length;
    await until(page, "Hardware over time", "it goes on", (shown) => shown.length > before);
    assert.equal(await chart.evaluate((svg) => svg === document.activeElement), true);
    assert.equal(await page.locator("svg.live .reading").count(), 1);
    await shot(page, "dashboard-chart", false);
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.click("button[aria-label='Hardware over time as CSV']"),
    ]);
    const lines = readFileSync(await download.path(), "utf8")
      .trim()
      .split("\n");
    assert.equal(lines[0], "time,hardware,hosts,held,waiting");
    assert.match(lines[1], /^\d{4}-\d\d-\d\dT[\d:.]+Z,local,1,1,1$/);
    assert.ok(lines.length > 2);
  });
  // What was seen survives a reload, and so does what was opened.
  const oldest = (await rows(page, "Hardware over time")).at(-1).Time.text;
  await page.reload();
  await state(page, "live");
  await until(page, "Hardware over time", "what was seen before", (shown) => shown.at(-1)?.Time.text === oldest);
  await page.click("#cache summary");
  const [cache] = await rows(page, "Cache");
  const json = await page.evaluate(async () => (await (await fetch("/api/status")).json()).cache);
  assert.deepEqual(
    [cache.Files.value, cache.Size.value, cache.Limit.value],
    [json.blobs, json.bytes, json.limit_bytes],
  );
  await leave(page);
  await service.stop();
});

test("everything is reached by keys, and the theme is changed", async () => {
  const service = await Service.start("keys");
  const page = await visitService(service.page, { scheme: "dark" });
  await until(page, "Workers", "one", (shown) => shown.length === 1);
  const reached = [];
  for (let i = 0; i < 200; i++) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => {
      const e = document.activeElement;
      return e === document.body ? null : (e.getAttribute("aria-label") ?? e.textContent);
    });
    if (at === null) break;
    reached.push(at);
  }
  for (const wanted of [
    /^Theme/,
    /hosts held/,
    /waiting/,
    /^local, the last minutes/,
    /^Numbers$/,
    /^Hardware as CSV$/,
    /^Workers$/,
    /^Worker$/,
  ])
    assert.ok(
      reached.some((text) => wanted.test(text)),
      `${wanted} in ${reached}`,
    );
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await ground();
  await page.locator("button.theme").focus();
  await page.keyboard.press("Enter");
  assert.equal(await page.textContent("button.theme"), "Theme: light");
  assert.notEqual(await ground(), dark);
  await page.reload();
  await state(page, "live");
  assert.equal(await page.textContent("button.theme"), "Theme: light");
  await leave(page);
  await service.stop();
});

// ---- Trust ----

test("the page is small, and its policy lets it ask nobody else", async () => {
  const service = await Service.start("strict");
  const page = await visitService(service.page);
  await state(page, "live");
  const [answer] = await Promise.all([page.waitForResponse(service.page), page.reload()]);
  const headers = answer.headers();
  assert.ok((await answer.body()).length < 200000);
  assert.match(
    headers["content-security-policy"],
    /^default-src 'none'; script-src 'sha256-[^' ]+'; style-src 'sha256-[^' ]+'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'$/,
  );
  assert.equal(headers["x-content-type-options"], "nosniff");
  assert.equal(headers["content-type"], "text/html; charset=utf-8");
  await state(page, "live");
  await leave(page);
  await service.stop();
});

async function untouched(page, what) {
  assert.equal(await page.evaluate(() => globalThis.pwned), undefined);
  assert.equal(await page.evaluate(() => document.querySelectorAll("script, img, iframe").length), 1);
  assert.ok((await overflow(page)) <= 0, "it scrolls sideways");
  await keep(page, `hostile-${what}`);
}

test("hostile names of models stay names", async () => {
  const service = await Service.start("names");
  const names = HOSTILE.map((text) => `${text.replaceAll("/", "").replaceAll("\0", "").slice(0, 200)}.onnx`);
  for (const name of names) await measure(service, `./${model(name)}`);
  const page = await visitService(service.page, { width: 360 });
  const shown = await until(page, "Measurements", "all", (now) => now.length === names.length);
  assert.deepEqual(texts(shown, "Model"), [...names].reverse());
  await untouched(page, "names");
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.click("button[aria-label='Measurements as CSV']"),
  ]);
  assert.doesNotMatch(readFileSync(await download.path(), "utf8"), /(^|,)"?=/m);
  // Their reports are pages too.
  for (const link of await page.locator("#measurements a:has-text('Report')").all()) {
    const [report] = await Promise.all([page.context().waitForEvent("page"), link.click()]);
    await report.waitForSelector("article");
    assert.equal(await report.evaluate(() => globalThis.pwned), undefined);
    await report.close();
  }
  await leave(page);
  await service.stop();
});

// What the service itself wouldn't say: every text of its answers is hostile.
test("hostile answers stay text", async () => {
  const service = await Service.start("answers");
  await measure(service, model("small.onnx"));
  await service.sessions(async (order) => {
    await order({ open: "one", backends: ["local/onnxrt-cpu"] });
    await order({ open: "two", backends: ["local/onnxrt-cpu"] });
    for (const [i, text] of HOSTILE.entries()) {
      const page = await visitService(service.page, {
        width: 360,
        prepare: (empty) =>
          empty.route("**/api/**", async (route) => {
            const answer = await route.fetch();
            const json = JSON.parse(await answer.text(), (key, value) =>
              typeof value === "string" && !["id", "state", "signed_in_by"].includes(key) ? text : value,
            );
            await route.fulfill({ response: answer, json });
          }),
      });
      await until(page, "Sessions", "both", (shown) => shown.length === 2 && shown[0].User.text === text);
      await until(page, "Measurements", "one", (shown) => shown.length === 1 && shown[0].Model.text === text);
      assert.equal((await rows(page, "Queue"))[0].Needs.text, text);
      assert.equal((await rows(page, "Workers"))[0].Worker.text, text);
      await page.click("#sessions button:has-text('Close') >> nth=0");
      assert.ok((await page.textContent("dialog")).includes(text.slice(0, 50)));
      await shot(page, `dashboard-hostile-close-${i}`, false);
      await page.keyboard.press("Escape");
      await page.setViewportSize({ width: 1200, height: 900 });
      await untouched(page, i);
      await page.setViewportSize({ width: 360, height: 800 });
      await settle(page);
      await untouched(page, `${i}-360`);
      assert.deepEqual(await seriousFaults(page), []);
      await leave(page);
    }
  });
  await service.stop();
});
