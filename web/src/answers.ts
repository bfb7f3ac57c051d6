// The answers of reports other than profiles: traces, comparisons, layers and schedules.
import { type Card, barPicture, plainCard, ratioPicture, sentence } from "./card";
import { bytes, count, dollars, duration, integer, micros, percent, rate, ratio, seconds, significant } from "./format";
import { colourOf } from "./theme";
import type {
  Comparison,
  ComparisonRow,
  LayerProfile,
  Layers,
  Num,
  Report,
  Schedule,
  Trace,
  TraceComparison,
  TraceDifference,
} from "./types";

type Facts = Card["facts"];
interface Said {
  verdict?: string;
}
interface Seen {
  markdown?: string | null;
}

const SHARES = 5; // parts of a bar that have a name

function cardOf<D extends Said, V extends Seen>(report: Report<D, V>, title: string, parts: Partial<Card>): Card {
  return { ...plainCard(report.data.verdict ?? "", title, report.view?.markdown), ...parts };
}

const known = (list: [string, string | null | undefined | false][]): Facts =>
  list.filter((fact): fact is [string, string] => Boolean(fact[1]));

// "12 ms ± 0.4 %": of what is known well enough to say so.
const withHalf = (show: (value: Num) => string, value: Num, half: Num): string =>
  show(value) + (value && half !== null && half > 0 && half <= value ? ` ± ${percent(half / value)}` : "");

// A ratio of times, told as the faster one: "1.08× as fast (1.05 to 1.11)".
function asFast(r: Num, low: Num, high: Num): string {
  const turned = (r ?? 1) < 1;
  const turn = (x: Num): Num => (turned && x ? 1 / x : x);
  const [from, to] = turned ? [turn(high), turn(low)] : [low, high];
  const range = from === null || to === null ? "" : ` (${ratio(from)} to ${ratio(to)})`;
  return `${ratio(turn(r))}× as fast${range}`;
}

// ---- Traces ----

const groupName = (g: { node?: string; op?: string; provider?: string; input_type_shape?: string }): string =>
  g.op ?? g.node ?? g.provider ?? g.input_type_shape ?? "";

const share = (pct: Num): string => percent(pct === null ? null : pct / 100);

export function traceCard(report: Report<Trace, Seen>, title: string): Card {
  const { ledger, cpu, gpu, runs, warnings } = report.data;
  const run = ledger?.run?.per_run;
  const first = cpu.groups[0];
  const kernel = gpu.groups[0];
  const named = cpu.groups.slice(0, SHARES).map((g) => ({
    name: groupName(g),
    value: g.duration_us,
    colour: colourOf("operator", groupName(g)),
    tip: `${groupName(g)}: ${share(g.pct)}`,
  }));
  return cardOf(report, title, {
    facts: known([
      ["A run takes", run && `${micros(run.mean_us)} on average`],
      ["Longest run", run && micros(run.max_us)],
      ["Runs analysed", `${integer(runs.analysed)} of ${integer(runs.found)}`],
      ["Nodes run for", ledger && `${share(ledger.node.pct)} of the time`],
      ["Most time", first && `${groupName(first)}: ${share(first.pct)} of all nodes`],
      ["Most time on the GPU", kernel && `${kernel.kernel}: ${share(kernel.pct)} of all kernels`],
      ["Threads in nodes", ledger?.parallel_factor ? significant(ledger.parallel_factor) : null],
    ]),
    picture: named.length > 0 ? barPicture("Time of nodes", named, cpu.duration_us) : undefined,
    caveats: warnings.map(sentence),
  });
}

const SURE: Record<string, [string, string]> = {
  slower: ["Certain", "The 95 % interval clears the smallest difference that counts."],
  faster: ["Certain", "The 95 % interval clears the smallest difference that counts."],
  same: ["Equal", "The 95 % interval is within the smallest difference that counts."],
  "not shown": ["Can't tell", "The 95 % interval shows neither a difference nor that there is none."],
};

const changeOf = (d: TraceDifference): string =>
  `${groupName(d)}: ${
    d.verdict.startsWith("only in") ? d.verdict : `${micros(d.first_median_us)} → ${micros(d.second_median_us)}`
  }`;

export function traceComparisonCard(report: Report<TraceComparison, Seen>, title: string): Card {
  const { run, groups, first, second, smallest_difference, warnings = [] } = report.data;
  const counts = smallest_difference ?? 0;
  const few = run?.verdict === "too few runs";
  const sure = run && (few ? undefined : (SURE[run.verdict] ?? SURE["not shown"]));
  const told = run?.ratio && !few ? run.ratio : null; // what too few runs tell isn't a ratio yet
  const faster = (run?.ratio ?? 1) < 1 ? "Second against first" : "First against second";
  return cardOf(report, title, {
    facts: known([
      ["A run in the first", run && micros(run.first_median_us)],
      ["A run in the second", run && micros(run.second_median_us)],
      [faster, run && told !== null && asFast(told, run.ratio_low, run.ratio_high)],
      ["Largest difference", groups.length > 0 && changeOf(groups[0])],
      ["Runs compared", `${integer(first.analysed)} and ${integer(second.analysed)}`],
    ]),
    sure: few ? ["Can't tell", "There are too few runs."] : (sure ?? undefined),
    picture: run && told !== null ? ratioPicture(...upwards(told, run.ratio_low, run.ratio_high, counts)) : undefined,
    caveats: warnings.map(sentence),
  });
}

function upwards(r: number, low: Num, high: Num, counts: number): [number, Num, Num, number] {
  return r >= 1 ? [r, low, high, counts] : [1 / r, high && 1 / high, low && 1 / low, counts];
}

// ---- Saved profiles ----

function rowFacts(row: ComparisonRow): Facts {
  const time = row.time_ns;
  const pair = (title: string, c: { before: Num; after: Num }, show: (v: Num) => string): [string, string | false] => [
    title,
    c.before !== null && c.after !== null && `${show(c.before)} → ${show(c.after)}`,
  ];
  return known([
    ["Backend", row.backend],
    pair("Time", time, duration),
    [
      (time.ratio ?? 1) < 1 ? "After against before" : "Before against after",
      time.ratio !== null && asFast(time.ratio, time.ratio_low, time.ratio_high),
    ],
    pair("Peak memory", row.peak_bytes, bytes),
    pair("Cost per million", row.usd_per_million, dollars),
  ]);
}

const COMPARED: Record<string, [string, string]> = {
  ...SURE,
  unsure: SURE["not shown"],
  "machines differ": ["Can't tell", "The files were measured on different machines."],
};

// The row whose figures are shown: the one that became slowest, else the one that became fastest.
function telling(rows: ComparisonRow[]): ComparisonRow | undefined {
  const far = (r: ComparisonRow): number => Math.abs(Math.log(r.time_ns.ratio ?? 1));
  const rank = (r: ComparisonRow): number => ["slower", "faster", "unsure", "same"].indexOf(r.verdict) + 1 || 5;
  return rows.filter((r) => r.time_ns.ratio !== null).sort((a, b) => rank(a) - rank(b) || far(b) - far(a))[0];
}

export function comparisonCard(report: Report<Comparison, Seen>, title: string): Card {
  const { files, regressions, fail_over: limit } = report.data;
  const all = files.flatMap((f) => f.rows);
  const verdicts = [...new Set(all.map((r) => r.verdict))];
  const shown = telling(all);
  const lone = all.length === 1;
  const counts = files[0]?.must_clear ?? 0;
  const time = shown?.time_ns;
  return cardOf(report, title, {
    facts: [
      ...known([
        ["Regressions", limit === null ? null : `${integer(regressions)} over ${percent(limit)}`],
        ...verdicts.map((v): [string, string | false] => [
          v.charAt(0).toUpperCase() + v.slice(1),
          !lone && `${integer(all.filter((r) => r.verdict === v).length)} of ${integer(all.length)}`,
        ]),
      ]),
      ...(shown ? rowFacts(shown) : []),
    ],
    sure: shown ? COMPARED[shown.verdict] : undefined,
    picture: time?.ratio ? ratioPicture(...upwards(time.ratio, time.ratio_low, time.ratio_high, counts)) : undefined,
    advice: all.some((r) => r.verdict === "unsure") ? "Measure both again with more launches (--launches)." : undefined,
    caveats: files.some((f) => f.machines_differ) ? ["The files are of different machines."] : [],
  });
}

// ---- Layers and schedules ----

export function layerProfileCard(report: Report<LayerProfile, Seen>, title: string): Card {
  const { profile_data: list, sum, whole, batch_size: batch, backend } = report.data;
  const slowest = [...list].sort((a, b) => b.time_s - a.time_s)[0];
  const largest = [...list].sort((a, b) => b.memory_mb - a.memory_mb)[0];
  const flags = [...new Set(list.flatMap((l) => l.flags))];
  return cardOf(report, title, {
    facts: known([
      ["All layers", withHalf(seconds, sum.time_s, sum.time_ci_s)],
      ["Whole model", whole && withHalf(seconds, whole.as_it_is.time_s, whole.as_it_is.time_ci_s)],
      ["Slowest", slowest && `layer ${slowest.layer}: ${withHalf(seconds, slowest.time_s, slowest.time_ci_s)}`],
      ["Most memory", largest && `layer ${largest.layer}: ${significant(largest.memory_mb)} MB`],
      ["Batch", integer(batch)],
      ["Backend", backend],
      ["Outputs", whole && (whole.outputs.mismatch ? "DIFFER from the whole model's" : "agree with the whole model's")],
    ]),
    picture:
      list.length > 1
        ? barPicture(
            "Time of layers",
            list.map((l, i) => ({
              name: String(l.layer),
              value: l.time_s,
              colour: i,
              tip: `layer ${l.layer}: ${seconds(l.time_s)}`,
            })),
            sum.time_s ?? 0,
          )
        : undefined,
    caveats: flags.length > 0 ? [`Some layers are flagged: ${flags.join(", ")}. The table says which and why.`] : [],
  });
}

export function layersCard(report: Report<Layers & Said, Seen>, title: string): Card {
  const list = report.data.layers;
  const most = (key: "flops" | "weight_bytes"): Layers["layers"][0] | undefined =>
    [...list].sort((a, b) => (b[key] ?? 0) - (a[key] ?? 0))[0];
  const work = most("flops");
  const weights = most("weight_bytes");
  return cardOf(report, title, {
    facts: known([
      ["Layers", integer(list.length)],
      ["Most work", work?.flops ? `layer ${work.layer}: ${count(work.flops)}FLOP` : null],
      ["Most weights", weights?.weight_bytes ? `layer ${weights.layer}: ${bytes(weights.weight_bytes)}` : null],
    ]),
  });
}

// Which host to add: the type with which the objective becomes smallest, if it becomes smaller at all.
function addition(data: Schedule): string | undefined {
  const [key, now, show] = (
    {
      throughput: ["period_s", data.period_s, (s: number) => rate(data.batch_size / s)],
      latency: ["latency_s", data.latency_s, (s: number) => `a latency of ${seconds(s)}`],
      cost: ["usd_per_hour", data.usd_per_hour, (usd: number) => `${dollars(usd)} per hour`],
    } as const
  )[data.objective];
  const best = data.one_more
    .map((m) => ({ type: m.type, value: m[key] ?? null }))
    .filter((m): m is { type: string; value: number } => m.value !== null && m.value > 0)
    .sort((a, b) => a.value - b.value)[0];
  if (!best || (now !== null && best.value >= now)) return undefined;
  return `One more host of type ${best.type} is predicted to give ${show(best.value)}.`;
}

function bottleneck(data: Schedule): string | null {
  const slow = data.bottleneck;
  const stage = slow && data.stages[slow.stage - 1];
  if (!slow || !stage) return null;
  return slow.kind === "stage"
    ? `stage ${slow.stage}, ${stage.host}: ${seconds(stage.time_s)}`
    : `link after stage ${slow.stage}: ${seconds(stage.link?.time_s)}`;
}

export function scheduleCard(report: Report<Schedule, Seen>, title: string): Card {
  const { data } = report;
  const tried = data.simulation;
  const figure = (name: string, planned: string, measured: string | null | undefined): [string, string][] =>
    measured
      ? [
          [`${name}, measured`, measured],
          [`${name}, predicted`, planned],
        ]
      : [[`${name}, predicted`, planned]];
  return cardOf(report, title, {
    facts: data.feasible
      ? known([
          ...figure(
            "Throughput",
            withHalf(rate, data.throughput_per_s, data.throughput_ci_per_s),
            tried && withHalf(rate, tried.throughput_per_s, tried.throughput_ci_per_s),
          ),
          ...figure(
            "Latency",
            withHalf(seconds, data.latency_s, data.latency_ci_s),
            tried && withHalf(seconds, tried.latency_s, tried.latency_ci_s),
          ),
          ["Hosts", integer(data.stages.length)],
          ["Bottleneck", bottleneck(data)],
          ["Price", data.usd_per_hour === null ? null : `${dollars(data.usd_per_hour)} per hour`],
          ["Best possible", data.bound === null ? "yes, proved" : "not proved"],
        ])
      : [],
    picture:
      data.stages.length > 1
        ? barPicture(
            "Time of stages",
            data.stages.map((stage, i) => ({
              name: String(i + 1),
              value: stage.time_s,
              colour: i,
              tip: `stage ${i + 1}: ${seconds(stage.time_s)}`,
            })),
            data.stages.reduce((sum, stage) => sum + stage.time_s, 0),
          )
        : undefined,
    advice: addition(data),
    caveats: tried?.disturbed_launches
      ? [`Something else ran during ${tried.disturbed_launches} of ${tried.launches} launches.`]
      : [],
  });
}
