// The service's page: what it is doing, asked for again and again, for as long as one is signed in.
import { Refused, ask, repeated } from "./dashboard_ask";
import { history } from "./dashboard_history";
import type { EndedSession, Measurement, Order, Session, Status, You } from "./dashboard_types";
import {
  type HardwarePart,
  type Part,
  cachePart,
  endedColumns,
  forgetSeen,
  hardwarePart,
  heading,
  measurementColumns,
  overview,
  pastPart,
  queuePart,
  say,
  sessionsPart,
  workersPart,
} from "./dashboard_view";
import { h, name } from "./dom";
import { clockTime, lasted, shorten } from "./format";
import { themeButton } from "./theme";
import { trend } from "./dashboard_trend";

const PAUSE_MS = 2000;
const HIDDEN_PAUSE_MS = 20e3;
const HISTORY_PAUSE_MS = 10e3;
const TIMEOUT_MS = 10e3;
const SLOW_MS = 3000;
const BACK_OFF_MAX_MS = 30e3;

// ---- The head ----

const about = h("span", { class: "about" });
const who = h("span", { class: "who" });
const signOut = h("button", { type: "button", hidden: true }, "Sign out");
// What is said aloud changes with the state only; the seconds that pass stand beside it.
const contact = h("span", { class: "contact", role: "status" });
const since = h("span", {});
const tryNow = h("button", { type: "button" }, "Try now");
const banner = h("div", { class: "warning lost", hidden: true }, since, " ", tryNow);
const draining = h("p", { class: "warning", hidden: true }, "The service is about to end: it takes no new sessions.");
const notice = h("p", { class: "warning notice", role: "status", hidden: true });
const main = h("main");

type State = "asking" | "live" | "slow" | "lost" | "out";
let state: State = "asking";
let answeredAt = 0; // when it was last heard, by performance.now()
let lastHeard = 0; // the same, by the clock
let failures = 0;
let nextTry = 0;
let why = "";

function setState(next: State): void {
  state = next;
  const says: Record<State, string> = {
    asking: "Asking the service",
    live: "Live",
    slow: "Slow: waiting for an answer",
    lost: lastHeard ? `No contact since ${clockTime(lastHeard)}` : "No contact",
    out: "Signed out",
  };
  contact.dataset.state = next;
  if (contact.textContent !== says[next]) contact.textContent = says[next];
  main.classList.toggle("stale", next === "lost");
  banner.hidden = next !== "lost";
  document.title = next === "lost" ? `No contact - ${location.host} - prony` : `${location.host} - prony`;
  count();
}

// The seconds that pass.
function count(): void {
  if (state !== "lost") return;
  const now = performance.now();
  const wait = Math.ceil((nextTry - now) / 1000);
  const silent = lasted(1000 * Math.round((now - answeredAt) / 1000)).replace(".0 s", " s");
  since.textContent =
    (lastHeard
      ? `No contact with the service for ${silent}: ${why}. What is shown is of ${clockTime(lastHeard)}.`
      : `No contact with the service: ${why}.`) + (wait > 0 ? ` Next try in ${wait} s.` : " Trying again.");
}
setInterval(count, 1000);

// ---- Signing in ----

const tokenInput = h("input", {
  type: "password",
  name: "token",
  id: "token",
  autocomplete: "current-password",
  required: true,
  spellcheck: "false",
  "aria-describedby": "token-fault",
});
const tokenFault = h("p", { id: "token-fault", class: "fault", role: "alert" });
const tokenButton = h("button", { type: "submit" }, "Sign in");
const signIn = h(
  "form",
  { class: "sign-in", "aria-label": "Sign in" },
  h("label", { for: "token" }, "Token"),
  tokenInput,
  tokenButton,
  tokenFault,
  h(
    "p",
    { class: "more" },
    "An administrator of the service makes one with ",
    h("code", {}, "prony token add USER"),
    ".",
  ),
);

signIn.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (tokenButton.disabled) return;
  tokenButton.disabled = true;
  try {
    await ask("/api/sign-in", TIMEOUT_MS, { token: tokenInput.value.trim() });
    tokenInput.value = "";
    tokenFault.textContent = "";
    setState("asking");
    pollNow();
  } catch (fault) {
    const said = (fault as Error).message;
    tokenFault.textContent = said.charAt(0).toUpperCase() + said.slice(1);
    tokenInput.select();
    tokenInput.focus();
  }
  tokenButton.disabled = false;
});

signOut.addEventListener("click", async () => {
  try {
    await ask("/api/sign-out", TIMEOUT_MS, {});
    signedOut("");
  } catch (fault) {
    failed(fault);
  }
});

// What is shown belongs to one user; it goes when they do.
let shown: { you: You; parts: Part[]; hardware: HardwarePart; refresh: () => void } | null = null;
let epoch = 0;

function signedOut(reason: string): void {
  const before = state;
  epoch++;
  shown = null;
  failures = 0;
  dialog.close();
  forgetSeen();
  who.replaceChildren();
  about.replaceChildren();
  signOut.hidden = true;
  draining.hidden = true;
  notice.hidden = true;
  orderFault.textContent = "";
  setState("out");
  if (before === "out") return;
  tokenFault.textContent = reason;
  main.replaceChildren(heading(location.host), signIn);
  tokenInput.focus();
}

// ---- Closing a session ----

const dialogText = h("p");
const dialogFault = h("p", { class: "fault", role: "alert" });
const keepIt = h("button", { type: "button" }, "Keep it");
const closeIt = h("button", { type: "button", class: "danger" }, "Close the session");
const dialog = h(
  "dialog",
  { "aria-labelledby": "dialog-title" },
  h("h2", { id: "dialog-title" }, "Close this session?"),
  dialogText,
  dialogFault,
  h("div", { class: "tools" }, keepIt, closeIt),
);
let closing: Session | null = null;

function describeClosing(session: Session): void {
  closing = session;
  dialogText.replaceChildren(
    "Session ",
    name(session.id),
    " on ",
    name(shorten(session.backends.join(", "), 200)),
    session.state === "waiting"
      ? " gives up its place in the queue."
      : " ends, with whatever it is running, and its hosts go to the next.",
  );
}

function confirmClose(session: Session): void {
  describeClosing(session);
  dialogFault.textContent = "";
  closeIt.disabled = false;
  dialog.showModal();
  keepIt.focus();
}

// While the question is open the session may get its hosts, or end.
function updateClosing(status: Status): void {
  if (!dialog.open || !closing) return;
  const { id } = closing;
  const now = status.sessions.find((x) => x.id === id);
  if (now) describeClosing(now);
  if (now || status.sessions_left_out) return;
  dialogText.replaceChildren("Session ", name(id), " has ended.");
  closeIt.disabled = true;
}

keepIt.addEventListener("click", () => dialog.close());
closeIt.addEventListener("click", async () => {
  if (!closing) return;
  const during = epoch;
  closeIt.disabled = true;
  try {
    if (closing.yours) await ask("/api/close", TIMEOUT_MS, { session: closing.id });
    else await ask("/api/admin", TIMEOUT_MS, { action: "close", target: closing.id });
    dialog.close();
    pollNow();
  } catch (fault) {
    closeIt.disabled = false;
    if (during !== epoch) return;
    if (fault instanceof Refused && fault.status === 401) signedOut("You are no longer signed in.");
    else dialogFault.textContent = `It was not closed: ${(fault as Error).message}.`;
  }
});

// ---- What an administrator orders ----

const orderFault = h("p", { class: "fault", role: "alert" });

async function give(order: Order): Promise<void> {
  const during = epoch;
  try {
    await ask("/api/admin", TIMEOUT_MS, order);
    orderFault.textContent = "";
    pollNow();
  } catch (fault) {
    if (during !== epoch) return;
    if (fault instanceof Refused && fault.status === 401) signedOut("You are no longer signed in.");
    else orderFault.textContent = `It was not done: ${(fault as Error).message}.`;
  }
}

const noticeInput = h("input", { type: "text", name: "notice", id: "notice", maxlength: "1000" });
const noticeForm = h(
  "form",
  { class: "tools", "aria-label": "Notice" },
  h("label", { for: "notice" }, "Notice to all clients"),
  noticeInput,
  h("button", { type: "submit" }, "Show it"),
);
noticeForm.addEventListener("submit", (event) => {
  event.preventDefault();
  void give({ action: "notice", text: noticeInput.value.trim() });
});

// ---- Asking ----

function begin(you: You): NonNullable<typeof shown> {
  const giving = you.admin ? (order: Order): void => void give(order) : null;
  const hardware = hardwarePart(you.user ?? "", giving);
  const top = overview();
  const sessions = sessionsPart(confirmClose, you.admin);
  const parts = [top, hardware, queuePart(), sessions, workersPart(giving), cachePart()];
  const fault = h("p", { class: "fault", role: "status" });
  const during = epoch;
  const complain = (error: unknown): void => {
    if (during !== epoch) return;
    if (error instanceof Refused && error.status === 401) signedOut("You are no longer signed in.");
    else say(fault, `The history can't be read at the moment: ${(error as Error).message}.`);
  };
  const medians = trend();
  const measurements = history<Measurement>(
    "/api/measurements",
    "measurements",
    "Measurements",
    "Nothing has been measured yet.",
    measurementColumns,
    complain,
    (rows) => medians.update(rows),
  );
  const ended = history<EndedSession>(
    "/api/sessions",
    "sessions",
    "Ended sessions",
    "No session has ended yet.",
    endedColumns,
    complain,
  );
  const refresh = repeated(
    async () => {
      if (during !== epoch || state === "lost" || document.hidden) return;
      try {
        await measurements.refresh();
        await ended.refresh();
        top.past(measurements.count());
        say(fault, "");
      } catch (error) {
        complain(error);
      }
    },
    () => (during === epoch ? HISTORY_PAUSE_MS : null),
  );
  const arriving = state !== "live" && main.contains(document.activeElement);
  const title = heading(location.host);
  main.replaceChildren(
    title,
    draining,
    notice,
    ...(you.admin ? [noticeForm, orderFault] : []),
    ...parts.map((part) => part.element),
    pastPart("measurements", "Measurements", h("div", {}, medians.element, measurements.element), fault),
    pastPart("ended", "Ended sessions", ended.element, h("span")),
  );
  if (arriving) title.focus({ preventScroll: true });
  refresh();
  return { you, parts, hardware, refresh };
}

let sessionsBefore = "";

function show(status: Status): void {
  const { you } = status;
  if (shown && (shown.you.user !== you.user || shown.you.admin !== you.admin)) {
    epoch++; // somebody else has signed in, in another window
    shown = null;
    dialog.close();
  }
  shown ??= begin(you);
  about.replaceChildren(name(status.version ?? ""), `, up for ${lasted(status.uptime_ms)}`);
  who.replaceChildren(name(you.user ?? ""), you.admin ? " (administrator)" : "");
  signOut.hidden = you.signed_in_by !== "token";
  draining.hidden = !status.draining;
  notice.hidden = !status.notice;
  say(notice, status.notice ?? "");
  for (const part of shown.parts) part.update(status);
  updateClosing(status);
  // What has ended is in the history.
  const sessions = status.sessions.map((x) => x.id).join();
  if (sessions !== sessionsBefore) shown.refresh();
  sessionsBefore = sessions;
}

function failed(fault: unknown): void {
  if (fault instanceof Refused && fault.status === 401) {
    signedOut(shown ? "You are no longer signed in." : "");
    return;
  }
  failures++;
  why = (fault as Error).message;
  if (failures === 1 && shown) shown.hardware.silent();
  nextTry = performance.now() + backOff();
  setState("lost");
}

// Twice as long each time, and not all pages at the same moment.
let jitter = 1;
const backOff = (): number => Math.min(BACK_OFF_MAX_MS, 1000 * 2 ** (failures - 1)) * jitter;

const pollNow = repeated(
  async () => {
    const during = epoch;
    const slow = setTimeout(() => state === "live" && setState("slow"), SLOW_MS);
    if (state === "lost") {
      nextTry = 0;
      count();
    }
    jitter = 0.8 + 0.4 * Math.random();
    try {
      const status = await ask<Status>("/api/status", TIMEOUT_MS);
      if (during !== epoch) return;
      const wasLost = state === "lost";
      answeredAt = performance.now();
      lastHeard = Date.now();
      failures = 0;
      show(status);
      setState("live");
      if (wasLost) shown?.refresh();
    } catch (fault) {
      if (during === epoch) failed(fault);
    } finally {
      clearTimeout(slow);
    }
  },
  () =>
    state === "out"
      ? null
      : failures > 0
        ? Math.max(0, nextTry - performance.now())
        : document.hidden
          ? HIDDEN_PAUSE_MS
          : PAUSE_MS,
);

tryNow.addEventListener("click", pollNow);
addEventListener("online", () => state !== "out" && pollNow());
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  pollNow(); // also when signed out: it may have been done in another window
  shown?.refresh();
});

document.body.prepend(
  h(
    "header",
    {},
    h("span", { class: "brand" }, "prony"),
    about,
    contact,
    h("span", { class: "grow" }),
    who,
    themeButton(),
    signOut,
  ),
  banner,
  main,
  dialog,
);
main.append(heading(location.host));
setState("asking");
pollNow();
