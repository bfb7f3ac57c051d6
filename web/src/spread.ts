// How times are spread, and how they came one after the other.
import { apart, curves, spreads } from "./charts";
import { chooser, figure, section } from "./figures";
import { h } from "./dom";
import { duration, integer, interval, percent, significant } from "./format";
import { type Row, SHOWN, modelOf } from "./rows";
import { type Line, ceiling, seriesPlot } from "./series";
import { coloursOf } from "./theme";
import type { Profile, ResultView } from "./types";

const pointLabel = (profile: Profile, point: number): string =>
  modelOf(profile, point) + (profile.points[point]?.label || "all");

// The points of a sweep that have results, each with its rows.
function byPoint(profile: Profile, rows: Row[]): { label: string; value: Row[] }[] {
  return profile.points
    .map((_, i) => ({ label: pointLabel(profile, i), value: rows.filter((r) => r.result.point === i).slice(0, SHOWN) }))
    .filter((p) => p.value.length > 0);
}

const coloursOfRows = (rows: Row[]): number[] =>
  coloursOf(
    "backend",
    rows.map((r) => r.view.backend),
  );

function distribution(rows: Row[]): HTMLElement {
  const colours = coloursOfRows(rows);
  return figure(
    "Distribution",
    "How the times of a backend are spread; the line is the median, the bar on the ground its 95 % interval." +
      (apart(rows.map(({ view }) => histogram(view))) ? " Each has its own axis: they are far apart." : ""),
    spreads(
      "Distribution of times",
      rows.map(({ result, view }, i) => ({
        name: view.name,
        colour: colours[i],
        ...histogram(view),
        median: result.stats?.median_ns ?? null,
        medianLow: result.stats?.low_ns ?? null,
        medianHigh: result.stats?.high_ns ?? null,
        tip: [
          `median ${interval(duration, result.stats?.median_ns, result.stats?.low_ns, result.stats?.high_ns)}`,
          `from ${duration(result.stats?.min_ns)} to ${duration(result.stats?.max_ns)}`,
          `${integer(view.samples?.count)} samples`,
        ],
      })),
      duration,
    ),
    {
      label: "Distribution",
      file: "distribution",
      columns: [
        { title: "Backend", field: "backend", value: (r) => r.view.name },
        { title: "From", field: "from_ns", value: (r) => r.from, show: (r) => duration(r.from) },
        { title: "To", field: "to_ns", value: (r) => r.to, show: (r) => duration(r.to) },
        { title: "Samples", field: "samples", value: (r) => r.n, show: (r) => integer(r.n) },
      ],
      rows: rows.flatMap(bins),
    },
  );
}

function histogram(view: ResultView): { low: number; high: number; above: number; counts: number[] } {
  const g = view.histogram;
  return g
    ? { low: g.low_ns, high: g.high_ns, above: g.above, counts: g.counts }
    : { low: 0, high: 0, above: 0, counts: [0] };
}

function bins(row: Row): { view: ResultView; from: number; to: number; n: number }[] {
  const g = histogram(row.view);
  const step = (g.high - g.low) / g.counts.length;
  return g.counts.map((n, i) => ({
    view: row.view,
    from: Math.round(g.low + i * step),
    to: Math.round(g.low + (i + 1) * step),
    n,
  }));
}

const READ = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99];

// Which share of the runs took at most how long: tails are seen that a histogram hides.
function cumulative(rows: Row[]): HTMLElement {
  const colours = coloursOfRows(rows);
  const drawn = rows.map((row, i) => {
    const { ns, rank } = row.view.ecdf as NonNullable<ResultView["ecdf"]>;
    const n = rank[rank.length - 1];
    const along = ns.map((x, k) => ({ x, y: rank[k] / n }));
    return {
      name: row.view.name,
      colour: colours[i],
      line: true,
      step: true,
      along: [{ x: along[0].x, y: 0 }, ...along],
      // Marks that can be read by keys.
      points: READ.filter((share) => n >= 1 / Math.min(share, 1 - share)).map((share) => {
        const at = along.find((p) => p.y >= share) ?? along[along.length - 1];
        return {
          x: at.x,
          y: at.y,
          tip: [row.view.name, `${percent(at.y)} of the runs took at most ${duration(at.x)}`],
        };
      }),
    };
  });
  const flat = rows.flatMap((row) => {
    const { ns, rank } = row.view.ecdf as NonNullable<ResultView["ecdf"]>;
    return ns.map((x, k) => ({ name: row.view.name, x, rank: rank[k], share: rank[k] / rank[rank.length - 1] }));
  });
  return figure(
    "Cumulative distribution",
    "Which share of the runs took at most how long; the axis of time is logarithmic.",
    curves({
      title: "Cumulative distribution",
      xTitle: "time",
      yTitle: "share of the runs",
      curves: drawn,
      showX: duration,
      showY: percent,
      logX: true,
    }),
    {
      label: "Cumulative distribution",
      file: "cumulative-distribution",
      columns: [
        { title: "Backend", field: "backend", value: (r) => r.name },
        { title: "At most", field: "time_ns", value: (r) => r.x, show: (r) => duration(r.x) },
        { title: "Runs", field: "runs", value: (r) => r.rank, show: (r) => integer(r.rank) },
        { title: "Share", field: "share", value: (r) => r.share, show: (r) => percent(r.share) },
      ],
      rows: flat,
    },
  );
}

function line(row: Row, colour: number): Line {
  const series = row.view.samples as NonNullable<ResultView["samples"]>;
  const breaks = series.launch.flatMap((launch, i) =>
    i === 0 || launch !== series.launch[i - 1] ? [{ x: series.place[i], name: `launch ${launch}` }] : [],
  );
  return {
    name: row.view.name,
    colour,
    x: series.place,
    low: series.low_ns,
    high: series.high_ns,
    middle: series.median_ns,
    breaks,
    ceiling: row.view.histogram?.high_ns,
  };
}

function samples(rows: Row[]): HTMLElement {
  const flat = rows.flatMap((r) => {
    const v = r.view.samples as NonNullable<ResultView["samples"]>;
    return v.low_ns.map((low, i) => ({
      name: r.view.name,
      launch: v.launch[i],
      block: v.block[i],
      low,
      high: v.high_ns?.[i] ?? low,
      n: v.samples?.[i] ?? 1,
    }));
  });
  const thinned = rows.some((r) => r.view.samples?.high_ns);
  const colours = coloursOfRows(rows);
  const lines = rows.map((row, i) => line(row, colours[i]));
  const { top, above } = ceiling(lines);
  return figure(
    "Samples over time",
    "In blocks, in the order in which they were measured; flags above are launches, which are fresh processes. " +
      (above > 0 ? `Triangles at the top are what took longer than ${duration(top)}. ` : "") +
      (thinned
        ? "There are more samples than places: a band is from the shortest to the longest of each place, " +
          "the line in it is their median."
        : ""),
    seriesPlot({
      title: "Samples over time",
      xTitle: "block",
      lines,
      wholeX: true,
      showX: (v, digits = 4) => significant(v, digits),
      showY: duration,
    }),
    {
      label: "Samples",
      file: "samples",
      columns: [
        { title: "Backend", field: "backend", value: (r) => r.name },
        { title: "Launch", field: "launch", value: (r) => r.launch },
        { title: "Block", field: "block", value: (r) => r.block },
        {
          title: thinned ? "Shortest" : "Time",
          field: thinned ? "shortest_ns" : "time_ns",
          value: (r) => r.low,
          show: (r) => duration(r.low),
        },
        ...(thinned
          ? [
              {
                title: "Longest",
                field: "longest_ns",
                value: (r: (typeof flat)[0]) => r.high,
                show: (r: (typeof flat)[0]) => duration(r.high),
              },
              { title: "Samples", field: "samples", value: (r: (typeof flat)[0]) => r.n },
            ]
          : []),
      ],
      rows: flat,
    },
  );
}

export function times(profile: Profile, rows: Row[]): HTMLElement | null {
  if (rows.length === 0) return null;
  return section(
    "Times",
    chooser("Sizes", byPoint(profile, rows), (some) => {
      const kinds = [{ label: "Histogram", value: distribution }];
      if (some.every((r) => r.view.ecdf)) kinds.push({ label: "Cumulative, logarithmic", value: cumulative });
      return h(
        "div",
        {},
        chooser("Distribution", kinds, (make) => make(some)),
        samples(some),
      );
    }),
  );
}
