// The answer at the top of a page: what to take, by how much it is better, how sure that is, what to do.
import { frame, label, scale, textWidth } from "./charts";
import { type Child, h, name, prose, s } from "./dom";
import { bytes, dollars, duration, integer, interval, percent, rate, ratio, shorten } from "./format";
import { type Row, noRate } from "./rows";
import { action, copyText, detached, pictureTools } from "./share";
import { seriesColour } from "./theme";
import type { Decision, Profile, ProfileView } from "./types";

export interface Card {
  verdict: string;
  title: string;
  facts: [string, string][];
  sure?: [string, string]; // in words, and what that means
  picture?: SVGSVGElement;
  caveats: string[];
  advice?: string;
  markdown: () => string;
}

const WIDTH = 300;
const LINE = 20;

// The ratio with its interval, beside 1; the grey band is what doesn't count.
export function ratioPicture(estimate: number, low: number | null, high: number | null, counts: number): SVGSVGElement {
  const f = frame(WIDTH, 46);
  const band = [1 / (1 + counts), 1 + counts];
  const axis = scale([estimate, low ?? estimate, high ?? estimate, ...band], 16, WIDTH - 16, { log: true });
  const [from, to] = band.map(axis.at);
  f.svg.append(
    s("rect", { class: "quiet", x: from, y: 6, width: Math.max(1, to - from), height: 20, "fill-opacity": 0.6 }),
    s("line", { class: "origin", x1: axis.at(1), x2: axis.at(1), y1: 4, y2: 28 }),
  );
  if (low !== null && high !== null)
    f.svg.append(
      s("rect", {
        x: axis.at(low),
        y: 12,
        width: Math.max(2, axis.at(high) - axis.at(low)),
        height: 8,
        fill: seriesColour(0),
        "fill-opacity": 0.55,
      }),
    );
  f.svg.append(s("circle", { cx: axis.at(estimate), cy: 16, r: 5, fill: seriesColour(0) }));
  const put = (text: string, at: number, free: number): number => {
    const half = textWidth(text) / 2;
    const middle = Math.max(half, Math.min(WIDTH - half, at));
    if (Math.abs(middle - free) < half + 24) return free;
    f.svg.append(s("text", { class: "axis", x: middle, y: 42, "text-anchor": "middle" }, text));
    return middle;
  };
  const main = put(`${ratio(estimate)}×`, axis.at(estimate), -Infinity);
  put("equal", axis.at(1), main);
  f.svg.setAttribute("role", "img");
  f.svg.setAttribute("aria-label", `Ratio of times: ${interval(ratio, estimate, low, high)}`);
  return f.svg;
}

interface BarPart {
  name: string;
  value: number;
  colour: number;
  tip: string;
}

// What a whole consists of: its parts one after the other, named where the name fits; the rest is grey.
export function barPicture(title: string, parts: BarPart[], whole: number): SVGSVGElement {
  const f = frame(WIDTH, 46);
  const wide = (value: number): number => (whole > 0 ? (value / whole) * WIDTH : 0);
  let x = 0;
  f.svg.append(s("rect", { class: "quiet", x: 0, y: 6, width: WIDTH, height: 20, "fill-opacity": 0.6 }));
  for (const part of parts) {
    const width = Math.min(wide(part.value), WIDTH - x);
    f.svg.append(s("rect", { x, y: 6, width: Math.max(0.5, width - 1), height: 20, fill: seriesColour(part.colour) }));
    if (textWidth(part.name) + 4 <= width)
      f.svg.append(s("text", { class: "axis", x: x + width / 2, y: 42, "text-anchor": "middle" }, part.name));
    x += width;
  }
  f.svg.setAttribute("role", "img");
  f.svg.setAttribute("aria-label", `${title}: ${shorten(parts.map((p) => p.tip).join("; "), 400)}`);
  return f.svg;
}

function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines[lines.length - 1];
    if (last !== undefined && textWidth(`${last} ${word}`) * 1.1 <= width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(shorten(word, 80));
  }
  return lines.slice(0, 12);
}

// The card as a picture, for chats and slides.
function cardSvg(card: Card): SVGSVGElement {
  const width = 640;
  const verdict = wrapped(card.verdict, width - 40);
  const lines = [
    ...card.facts.map(([k, v]) => `${k}: ${v}`),
    ...(card.sure ? [`${card.sure[0]}: ${card.sure[1]}`] : []),
  ];
  const shown = lines.flatMap((line) => wrapped(line, width - 40));
  const height = 56 + LINE * (verdict.length + shown.length) + (card.picture ? 54 : 0);
  const f = frame(width, height);
  let y = 30;
  f.svg.append(label(card.title, 20, y, width - 40, { class: "axis" }));
  for (const line of verdict) f.svg.append(s("text", { class: "strong", x: 20, y: (y += LINE) }, line));
  if (card.picture) {
    const copy = card.picture.cloneNode(true) as SVGSVGElement;
    copy.setAttribute("x", "12");
    copy.setAttribute("y", String(y + 6));
    f.svg.append(copy);
    y += 54;
  }
  for (const line of shown) f.svg.append(s("text", { x: 20, y: (y += LINE) }, line));
  return f.svg;
}

export function showCard(card: Card): HTMLElement {
  const fact = ([k, v]: [string, string]): Child => h("div", {}, h("dt", {}, k), h("dd", {}, name(v)));
  return h(
    "div",
    { class: "decision" },
    h("p", { class: "verdict" }, prose(card.verdict)),
    (card.facts.length > 0 || card.sure || card.picture) &&
      h(
        "div",
        { class: "answer" },
        card.facts.length > 0 && h("dl", { class: "figures" }, ...card.facts.map(fact)),
        (card.sure || card.picture) &&
          h(
            "div",
            { class: "certainty" },
            card.picture,
            card.sure && h("p", {}, h("strong", { "data-sure": card.sure[0] }, card.sure[0]), ` ${card.sure[1]}`),
          ),
      ),
    card.advice && h("p", { class: "advice" }, h("strong", {}, "What to do: "), prose(card.advice)),
    ...card.caveats.map((text) => h("p", { class: "warning" }, prose(shorten(text, 1000)))),
    h(
      "div",
      { class: "tools" },
      action("Copy as Markdown", "Copy as Markdown: the report", () => copyText(card.markdown(), "report.md")),
      ...pictureTools("the answer", "answer", () => detached(cardSvg(card))).slice(0, 1),
    ),
  );
}

// ---- Of a profile ----

const OUTPUTS = { agree: "agree", partly: "not all could be compared", differ: "DIFFER" };

function sureness(d: Decision, counts: number): [string, string] | undefined {
  const clear = percent(counts);
  switch (d.certainty) {
    case "certain":
      return ["Certain", `The 95 % interval is clear of equal by more than the ${clear} that count.`];
    case "probably":
      return [
        "Probably",
        "By the interval it is the fastest, nine times in ten or more; the interval doesn't clear it.",
      ];
    case "same":
      return ["Equal", `They are known to differ by less than ${clear}, which doesn't count.`];
    case "unknown":
      return ["Can't tell", "What was measured doesn't tell which one is faster."];
    default:
      return undefined;
  }
}

export const sentence = (text: string): string =>
  text.charAt(0).toUpperCase() + text.slice(1) + (text.endsWith(".") ? "" : ".");

function backendCard(data: Profile, d: Decision, rows: Row[]): Pick<Card, "facts" | "sure" | "picture" | "advice"> {
  const best = rows[d.best ?? 0];
  const next = d.next === null ? null : rows[d.next];
  const stats = best.result.stats;
  const half = best.view.half_width;
  const told = d.certainty === "certain" || d.certainty === null;
  const facts: [string, string][] = [
    [d.certainty === null ? "Backend" : told ? "Fastest" : "Shortest time", best.view.name],
    ["Time", duration(stats?.median_ns) + (half !== null && half <= 1 ? ` ± ${percent(half)}` : "")],
    ["Throughput", rate(best.view.inferences_per_s)],
  ];
  if (best.view.usd_per_million !== null) facts.push(["Cost per million", dollars(best.view.usd_per_million)]);
  if (best.view.peak_bytes !== null) facts.push(["Peak memory", bytes(best.view.peak_bytes)]);
  if (d.outputs) facts.push(["Outputs", OUTPUTS[d.outputs] ?? d.outputs]);
  const counts = data.settings.smallest_difference ?? 0;
  const sure = sureness(d, counts);
  const r = next?.result.ratio;
  if (next && r?.estimate != null) {
    const range = r.low === null || r.high === null ? "" : ` (${ratio(r.low)} to ${ratio(r.high)})`;
    facts.push([`Against ${shorten(next.view.name, 60)}`, `${ratio(r.estimate)}× as fast${range}`]);
  }
  return {
    facts,
    sure,
    picture: r?.estimate != null ? ratioPicture(r.estimate, r.low, r.high, counts) : undefined,
    advice: d.cure ? sentence(d.cure) : undefined,
  };
}

// What is best for what, in a sweep.
function sweepFacts(rows: Row[]): [string, string][] {
  const figures: Record<string, (r: Row) => string> = {
    latency: (r) => duration(r.result.stats?.median_ns),
    throughput: (r) => rate(r.view.inferences_per_s),
    cost: (r) => `${dollars(r.view.usd_per_million)} per million`,
  };
  return Object.entries(figures).flatMap(([mark, show]): [string, string][] => {
    const best = rows.filter((r) => r.view.best.some((b) => b.replace("?", "") === mark));
    if (best.length === 0) return [];
    const others = best.length > 1 ? `, and ${integer(best.length - 1)} that can't be told from it` : "";
    return [[`Best for ${mark}`, `${best[0].view.name}: ${show(best[0])}${others}`]];
  });
}

function loadFacts(rows: Row[]): [string, string][] {
  return rows
    .filter((r) => r.result.load?.slo)
    .map((r) => {
      const slo = r.result.load?.slo;
      const limit = `p${100 * (slo?.percentile ?? 0)} ≤ ${duration(slo?.limit_ns)}`;
      const price = r.view.holds_usd_per_million;
      return [
        r.view.name,
        r.view.holds_per_s
          ? `${limit} up to ${rate(r.view.holds_per_s)}${price == null ? "" : `, ${dollars(price)} per million`}`
          : `${noRate(r.result) === "no rate" ? "cannot hold" : "not known to hold"} ${limit}`,
      ];
    });
}

export function profileCard(data: Profile, view: ProfileView, rows: Row[], title: string): Card {
  const load = loadFacts(rows);
  const caveats = (view.warnings ?? "")
    .split("\n")
    .map((line) => line.replace(/^! /, ""))
    .filter(Boolean);
  const parts: Partial<Card> =
    load.length > 0
      ? { facts: load }
      : view.decision
        ? backendCard(data, view.decision, rows)
        : { facts: sweepFacts(rows) };
  return {
    verdict: data.verdict ?? "",
    title,
    caveats,
    markdown: () => view.markdown ?? view.text,
    facts: [],
    ...parts,
  };
}

// Of any other report: the sentence.
export function plainCard(verdict: string, title: string, markdown: string | null | undefined): Card {
  return {
    verdict,
    title,
    facts: [],
    caveats: [],
    markdown: () => markdown || `## ${title.replace(/[\\`*_<>[\]]/g, "\\$&")}\n\n${verdict}\n`,
  };
}
