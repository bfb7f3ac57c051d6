// Reports of a model over time: the curve of each series with its intervals, its levels, and where it changed.
import type { History, HistoryPoint, HistorySeries } from "prony/history";
import { Curve, Point, curves } from "./charts";
import { h } from "./dom";
import { chooser, facts, figure, section } from "./figures";
import { duration, interval, ratio, significant } from "./format";
import { table } from "./table";
import { Report } from "./types";

// As much of a commit as tells it apart.
const COMMIT = 7;

const origin = (p: HistoryPoint | HistorySeries["changes"][0]): string =>
  p.commit ? `${p.commit.slice(0, COMMIT)}${p.changed ? "+" : ""}` : "";

const title = (s: HistorySeries): string => [s.backend, s.sizes, s.machine].filter(Boolean).join(" · ");

function tip(p: HistoryPoint): string[] {
  return [
    `Report ${p.report}${p.created ? `, ${p.created}` : ""}`,
    interval(duration, p.median_ns, p.low_ns, p.high_ns),
    [origin(p), p.branch].filter(Boolean).join(" "),
    p.flags.join(", "),
  ].filter(Boolean);
}

// One place for each report: days without one would press the others together.
function curve(s: HistorySeries): HTMLElement {
  const measured = s.points.map((p, i) => ({ p, i })).filter(({ p }) => p.median_ns !== null);
  const points: Curve = {
    name: "reports",
    line: false,
    points: measured.map(({ p, i }): Point => ({
      x: i + 1,
      y: p.median_ns ?? 0,
      low: p.low_ns,
      high: p.high_ns,
      tip: tip(p),
    })),
  };
  const levels: Curve = {
    name: "level",
    line: true,
    step: true,
    points: s.segments.flatMap((segment, k) => {
      const own = measured.filter(({ p }) => p.segment === k + 1);
      const says = [
        `Reports ${segment.first} to ${segment.last}`,
        interval(duration, segment.level_ns, segment.low_ns, segment.high_ns),
      ];
      return [own[0], own[own.length - 1]]
        .filter((at, n) => at && (n === 0 || own.length > 1))
        .map((at): Point => ({ x: at.i + 1, y: segment.level_ns ?? 0, tip: says }));
    }),
  };
  return curves({
    title: `Times of ${title(s)}`,
    xTitle: "place of the report, oldest first",
    yTitle: "median, 95 %",
    curves: [points, levels],
    showX: (value) => significant(value),
    showY: duration,
    logY: true,
  });
}

function changes(s: HistorySeries): HTMLElement {
  return table<HistorySeries["changes"][0]>({
    label: "Changes",
    file: "changes",
    columns: [
      { title: "Report", field: "report", value: (c) => c.report },
      { title: "Measured", field: "created", value: (c) => c.created },
      { title: "Commit", field: "commit", value: (c) => c.commit, show: origin },
      { title: "Branch", field: "branch", value: (c) => c.branch },
      { title: "Report before", field: "before", value: (c) => c.before },
      {
        title: "Time after over before",
        field: "ratio",
        value: (c) => c.ratio?.estimate,
        show: (c) => interval(ratio, c.ratio?.estimate, c.ratio?.low, c.ratio?.high),
      },
      { title: "p", field: "p", value: (c) => c.p, show: (c) => significant(c.p, 2) },
    ],
    rows: s.changes,
  });
}

function reports(s: HistorySeries): HTMLElement {
  const changed = new Set(s.changes.map((c) => c.report));
  return table<HistoryPoint>({
    label: "Reports",
    file: "reports",
    columns: [
      { title: "Report", field: "report", value: (p) => p.report },
      { title: "Measured", field: "created", value: (p) => p.created },
      { title: "Commit", field: "commit", value: (p) => p.commit, show: origin },
      { title: "Branch", field: "branch", value: (p) => p.branch },
      {
        title: "Time",
        field: "median_ns",
        value: (p) => p.median_ns,
        show: (p) => (p.median_ns === null ? `failed: ${p.error ?? ""}` : duration(p.median_ns)),
      },
      { title: "Low", field: "low_ns", value: (p) => p.low_ns, show: (p) => duration(p.low_ns) },
      { title: "High", field: "high_ns", value: (p) => p.high_ns, show: (p) => duration(p.high_ns) },
      { title: "Canary", field: "canary_ns", value: (p) => p.canary_ns, show: (p) => duration(p.canary_ns) },
      { title: "Flags", field: "flags", value: (p) => p.flags.join(" ") },
    ],
    rows: s.points,
    marked: (p) => changed.has(p.report),
  });
}

function series(s: HistorySeries): HTMLElement {
  return h(
    "div",
    {},
    s.measured > 0 &&
      figure("Times", "A dot is the median of a report, its line the 95 % interval; lines are levels.", curve(s)),
    s.shifts > 0 &&
      h("p", { class: "warning" }, "The machine changed its speed; what isn't larger than that is no change."),
    s.changes.length > 0 && h("h3", {}, "Changes"),
    s.changes.length > 0 && changes(s),
    h("h3", {}, "Reports"),
    reports(s),
    facts([
      ["Machine", s.machine],
      ["Not looked at", s.left_out > 0 ? `${s.left_out} older reports` : null],
    ]),
  );
}

export function history({ data }: Report<History, object>): Node[] {
  return [
    section(
      "Over time",
      chooser(
        "Series",
        data.series.map((s) => ({ label: title(s), value: s })),
        series,
      ),
    ),
  ];
}
