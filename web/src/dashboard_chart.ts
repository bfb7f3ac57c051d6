// What the page has seen of each hardware since it was opened, as small charts that go on.
import { label, scale, textWidth, ticks } from "./charts";
import { h, hideTip, s, showTip } from "./dom";
import { responsive } from "./figures";
import { clockTime, integer } from "./format";

export interface Sample {
  time: number; // ms, on the reader's clock
  hosts: number | null;
  held: number | null; // null: nothing was heard
  waiting: number | null;
}

export const WINDOW_MS = 600e3;
const SHORTEST_MS = 60e3;
const HEIGHT = 120;
const PAPER = 320; // px
// A hidden page is let do something once a minute; what is longer is a gap.
const GAP_MS = 90e3;

const STEPS_S = [10, 20, 30, 60, 120, 300];

function ago(seconds: number): string {
  if (seconds === 0) return "now";
  return seconds % 60 === 0 ? `-${seconds / 60} min` : `-${seconds} s`;
}

export function sampleText(sample: Sample): string[] {
  if (sample.held === null && sample.waiting === null) return ["no answer"];
  return [
    sample.held === null ? null : `${sample.held} of ${sample.hosts} ${sample.hosts === 1 ? "host" : "hosts"} held`,
    sample.waiting === null ? null : `${integer(sample.waiting)} waiting`,
  ].filter((text): text is string => text !== null);
}

// The line of one value: it holds until the next one. Stretches in which nothing is known are left out.
function stretches(
  samples: Sample[],
  value: (sample: Sample) => number | null,
  x: (time: number) => number,
  y: (value: number) => number,
): string[][] {
  const found: string[][] = [];
  let at: string[] | null = null;
  samples.forEach((sample, i) => {
    const now = value(sample);
    if (now === null || (i > 0 && sample.time - samples[i - 1].time > GAP_MS)) at = null;
    if (now === null) return;
    if (at === null) {
      at = [`M${x(sample.time).toFixed(1)} ${y(now).toFixed(1)}`];
      found.push(at);
    } else at.push(`H${x(sample.time).toFixed(1)}V${y(now).toFixed(1)}`);
  });
  // One alone is seen as well.
  for (const path of found) if (path.length === 1) path.push("h2");
  return found;
}

export interface LiveChart {
  element: HTMLElement;
  update: (samples: Sample[], name: string) => void;
}

export function liveChart(): LiveChart {
  let samples: Sample[] = [];
  let name = "";
  let width = 0;
  let left = 0;
  let read = -1; // the time of the sample that is being read
  const svg = s("svg", { class: "live", role: "application", "aria-roledescription": "chart", tabindex: 0 });
  const place = { x: (_: number): number => 0 };

  function draw(): void {
    if (width === 0 || samples.length === 0) return;
    const bottom = HEIGHT - 20;
    const now = samples[samples.length - 1].time;
    const range = Math.min(WINDOW_MS, Math.max(SHORTEST_MS, now - samples[0].time));
    const shown = samples.filter((sample) => sample.time >= now - range);
    const high = Math.max(
      1,
      ...shown.map((sample) => Math.max(sample.hosts ?? 0, sample.held ?? 0, sample.waiting ?? 0)),
    );
    const y = scale([0, high], bottom, 8, { zero: true });
    const counts = ticks(y, 3).filter(Number.isInteger);
    left = 10 + Math.max(...counts.map((count) => textWidth(integer(count))));
    const x = (time: number): number => left + ((time - now + range) / range) * (width - 8 - left);
    place.x = x;
    const step = STEPS_S.find((seconds) => range / 1000 / seconds <= Math.max(2, width / 80)) ?? 300;
    const parts: Node[] = counts.flatMap((count) => [
      s("line", { class: "grid", x1: left, x2: width - 8, y1: y.at(count), y2: y.at(count) }),
      s("text", { class: "axis", x: left - 5, y: y.at(count) + 4, "text-anchor": "end" }, integer(count)),
    ]);
    for (let seconds = 0; seconds <= range / 1000; seconds += step) {
      const at = x(now - 1000 * seconds);
      const half = textWidth(ago(seconds)) / 2;
      if (at - half < left - 8) break;
      parts.push(
        label(ago(seconds), Math.min(at, width - half), HEIGHT - 4, 100, { class: "axis", "text-anchor": "middle" }),
      );
    }
    const lines = (value: (sample: Sample) => number | null): string[] =>
      stretches(shown, value, x, y.at).map((path) => path.join(""));
    for (const path of lines((sample) => sample.held)) {
      const [, from] = /^M([\d.]+) /.exec(path) as RegExpExecArray;
      const to = /.*H([\d.]+)/.exec(path)?.[1] ?? from;
      parts.push(
        s("path", { class: "held", d: `${path}H${to}V${bottom}H${from}Z` }),
        s("path", { class: "held-line", d: path }),
      );
    }
    for (const path of lines((sample) => sample.hosts)) parts.push(s("path", { class: "hosts-line", d: path }));
    for (const path of lines((sample) => sample.waiting)) parts.push(s("path", { class: "waiting-line", d: path }));
    if (shown.some((sample) => sample.time === read))
      parts.push(s("line", { class: "reading", x1: x(read), x2: x(read), y1: 4, y2: bottom }));
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    svg.setAttribute("width", String(width));
    svg.setAttribute("height", String(HEIGHT));
    svg.replaceChildren(...parts);
    const text = `${name}, the last minutes. Arrow keys read them.`;
    if (svg.getAttribute("aria-label") !== text) svg.setAttribute("aria-label", text);
  }

  function tell(index: number, top: number): void {
    const sample = samples[index];
    read = sample.time;
    draw();
    const box = svg.getBoundingClientRect();
    showTip([clockTime(sample.time), ...sampleText(sample)], box.left + place.x(sample.time), top);
  }
  function leave(): void {
    read = -1;
    hideTip();
    draw();
  }
  svg.addEventListener("pointermove", (event) => {
    const at = event.clientX - svg.getBoundingClientRect().left;
    let nearest = samples.length - 1;
    samples.forEach((sample, i) => {
      if (Math.abs(place.x(sample.time) - at) < Math.abs(place.x(samples[nearest].time) - at)) nearest = i;
    });
    if (nearest >= 0) tell(nearest, event.clientY);
  });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const last = samples.length - 1;
    const current = samples.findIndex((sample) => sample.time === read);
    const target: Record<string, number> = {
      ArrowLeft: current < 0 ? last : Math.max(0, current - 1),
      ArrowRight: current < 0 ? last : Math.min(last, current + 1),
      Home: 0,
      End: last,
    };
    if (!(event.key in target) || last < 0) return;
    tell(target[event.key], svg.getBoundingClientRect().top + 20);
    event.preventDefault();
  });
  return {
    element: responsive(
      (now) => {
        width = now;
        draw();
        return svg;
      },
      160,
      PAPER,
    ),
    update(all, title) {
      samples = all;
      name = title;
      draw();
    },
  };
}

// What the lines are, for all charts.
export function legend(): HTMLElement {
  const sign = (kind: string, d: string, text: string): HTMLElement =>
    h(
      "span",
      {},
      s(
        "svg",
        { width: 28, height: 14, viewBox: "0 0 28 14", "aria-hidden": "true" },
        kind === "held-line" && s("path", { class: "held", d: "M0 4H28V14H0Z" }),
        s("path", { class: kind, d }),
      ),
      text,
    );
  return h(
    "p",
    { class: "legend" },
    sign("held-line", "M0 4H28", "hosts held"),
    sign("waiting-line", "M0 7H28", "sessions waiting"),
    sign("hosts-line", "M0 7H28", "hosts"),
  );
}
