// Layers of a model, and a pipeline of hosts that has them.
import { Task, gantt, ranges } from "./charts";
import { h, name } from "./dom";
import { facts, figure, section } from "./figures";
import { table } from "./table";
import { bytes, count, dollars, integer, interval, percent, rate, ratio, seconds, significant } from "./format";
import { flagged } from "./rows";
import { LayerProfile, Layers, Num, Report, Schedule, Stage } from "./types";

// ---- Layers ----

const FLAGS: Record<string, string> = {
  UNSTABLE: "times had not settled when warm-up ended",
  NOISY: "other work disturbed this machine while it was measured",
  IMPRECISE: "the wanted precision was not reached",
};

const around = (value: Num, half: Num): [Num, Num] =>
  value !== null && half !== null ? [value - half, value + half] : [null, null];

// Half of an interval; beyond the time itself it says nothing.
const half = (value: Num, ci: Num): string => (value !== null && ci !== null && ci > value ? "unknown" : seconds(ci));

const shapes = (list: number[][]): string => list.map((s) => s.join("x") || "scalar").join(" + ");

export function layerProfile({ data }: Report<LayerProfile, object>): Node[] {
  const rows = data.profile_data;
  const whole = [
    { name: "sum of the layers", part: data.sum },
    ...(data.whole
      ? [
          { name: "whole, not fused", part: data.whole.not_fused },
          { name: "whole, as it is", part: data.whole.as_it_is },
        ]
      : []),
  ];
  return [
    section(
      "Layers",
      figure(
        "Time per layer",
        "Mean of a batch, with its 95 % interval where there is one.",
        ranges(
          "Time per layer",
          rows.map((r) => {
            const [low, high] = around(r.time_s, r.time_ci_s);
            return {
              name: `layer ${r.layer}`,
              value: r.time_s,
              low,
              high,
              tip: [
                interval(seconds, r.time_s, low, high),
                `${significant(r.memory_mb)} MB`,
                `gives ${shapes(r.shape_out)}`,
              ],
            };
          }),
          seconds,
          { origin: 0 },
        ),
      ),
      table({
        label: "Layers",
        file: "layers",
        columns: [
          { title: "Layer", field: "layer", value: (r) => r.layer },
          { title: "Time", field: "time_s", value: (r) => r.time_s, show: (r) => seconds(r.time_s) },
          { title: "±", field: "time_ci_s", value: (r) => r.time_ci_s, show: (r) => half(r.time_s, r.time_ci_s) },
          {
            title: "Memory (MB)",
            field: "memory_mb",
            value: (r) => r.memory_mb,
            show: (r) => significant(r.memory_mb),
          },
          { title: "In", field: "shape_in", value: (r) => shapes(r.shape_in) },
          { title: "Out", field: "shape_out", value: (r) => shapes(r.shape_out) },
          { title: "Samples", field: "samples", value: (r) => r.samples, show: (r) => integer(r.samples) },
          { title: "Flags", field: "flags", value: (r) => r.flags.join(" "), show: (r) => flagged(r.flags, FLAGS) },
        ],
        rows,
      }),
    ),
    section(
      "The whole",
      figure(
        "Layers beside the whole model",
        data.whole ? `The sum is ${ratio(data.whole.sum_ratio)} of the whole with nothing fused across the cuts.` : "",
        ranges(
          "Layers beside the whole model",
          whole.map(({ name: title, part }) => {
            const [low, high] = around(part.time_s, part.time_ci_s);
            return { name: title, value: part.time_s, low, high, tip: [interval(seconds, part.time_s, low, high)] };
          }),
          seconds,
          { origin: 0 },
        ),
        {
          label: "Whole",
          columns: [
            { title: "What", field: "what", value: (w) => w.name },
            { title: "Time", field: "time_s", value: (w) => w.part.time_s, show: (w) => seconds(w.part.time_s) },
            {
              title: "±",
              field: "time_ci_s",
              value: (w) => w.part.time_ci_s,
              show: (w) => half(w.part.time_s, w.part.time_ci_s),
            },
          ],
          rows: whole,
        },
      ),
      facts([
        ["Model", `${data.model_name} (${data.file})`],
        ["Data type", data.dtype],
        ["Batch", integer(data.batch_size)],
        ["Backend", data.backend],
        ["Runtime", data.runtime],
        ["Processor", data.cpu],
      ]),
    ),
  ];
}

export function layers({ data }: Report<Layers, object>): Node[] {
  return [
    section(
      "Layers",
      figure(
        "Work per layer",
        "Operations that a run takes, from the shapes.",
        ranges(
          "Work per layer",
          data.layers.map((l) => ({
            name: `layer ${l.layer}`,
            value: l.flops,
            low: null,
            high: null,
            tip: [`${count(l.flops)} FLOP`, `${integer(l.nodes)} nodes, ${count(l.parameters)} parameters`],
          })),
          count,
          { origin: 0 },
        ),
      ),
      table({
        label: "Layers",
        file: "layers",
        columns: [
          { title: "Layer", field: "layer", value: (l) => l.layer },
          { title: "Nodes", field: "nodes", value: (l) => l.nodes, show: (l) => integer(l.nodes) },
          { title: "Parameters", field: "parameters", value: (l) => l.parameters, show: (l) => count(l.parameters) },
          { title: "Weights", field: "weight_bytes", value: (l) => l.weight_bytes, show: (l) => bytes(l.weight_bytes) },
          { title: "FLOP", field: "flops", value: (l) => l.flops, show: (l) => count(l.flops) },
          { title: "Gives", field: "out", value: (l) => l.out.map((t) => t.name).join(", ") },
        ],
        rows: data.layers,
      }),
      facts([["Model", data.file]]),
    ),
  ];
}

// ---- Schedules ----

const BATCHES = 6;

// When each batch is where, if all stages start as soon as they can.
function tasks(data: Schedule): Task[] {
  const free = data.stages.map(() => 0);
  const linkFree = data.stages.map(() => 0);
  const list: Task[] = [];
  for (let batch = 0; batch < BATCHES; batch++) {
    let at = 0;
    data.stages.forEach((stage, i) => {
      const start = Math.max(at, free[i]);
      const end = start + stage.time_s;
      free[i] = end;
      list.push({
        lane: 2 * i,
        start,
        end,
        name: `${batch + 1}`,
        colour: batch,
        marked: data.bottleneck?.kind === "stage" && data.bottleneck.stage === i + 1,
        tip: [`batch ${batch + 1} on ${stage.host}`, seconds(stage.time_s)],
      });
      at = end;
      if (!stage.link) return;
      const sent = Math.max(at, linkFree[i]);
      at = linkFree[i] = sent + stage.link.time_s;
      list.push({
        lane: 2 * i + 1,
        start: sent,
        end: at,
        name: "",
        colour: batch,
        thin: true,
        marked: data.bottleneck?.kind === "link" && data.bottleneck.stage === i + 1,
        tip: [`batch ${batch + 1} to the next stage`, seconds(stage.link.time_s)],
      });
    });
  }
  return list;
}

function stageBox(data: Schedule, stage: Stage, i: number): Node[] {
  const slow = data.bottleneck?.stage === i + 1;
  const box = h(
    "li",
    { class: slow && data.bottleneck?.kind === "stage" ? "stage bottleneck" : "stage" },
    h("strong", {}, `${i + 1}. `, name(stage.host)),
    h("span", {}, name(stage.type)),
    h(
      "span",
      {},
      stage.first_layer === stage.last_layer
        ? `layer ${stage.first_layer}`
        : `layers ${stage.first_layer} to ${stage.last_layer}`,
    ),
    h("span", {}, `${seconds(stage.time_s)}, ${percent(stage.idle)} idle`),
    h("span", {}, `${bytes(stage.memory_bytes)} of ${bytes(stage.available_bytes)}`),
    slow && data.bottleneck?.kind === "stage" && h("em", {}, "bottleneck"),
  );
  if (!stage.link) return [box];
  return [
    box,
    h(
      "li",
      { class: slow && data.bottleneck?.kind === "link" ? "link bottleneck" : "link" },
      h("span", { "aria-hidden": "true" }, "→"),
      h("span", {}, seconds(stage.link.time_s)),
      h("span", {}, bytes(stage.link.bytes)),
      slow && data.bottleneck?.kind === "link" && h("em", {}, "bottleneck"),
    ),
  ];
}

function simulated(data: Schedule): HTMLElement | null {
  const simulation = data.simulation;
  if (!simulation) return null;
  const rows = simulation.stages.map((stage, i) => ({ stage, planned: data.stages[i], i }));
  const column = (title: string, key: "alone_s" | "together_s" | "handling_s") => ({
    title,
    field: key,
    value: (r: (typeof rows)[0]) => r.stage[key],
    show: (r: (typeof rows)[0]) => seconds(r.stage[key]),
  });
  return section(
    simulation.server ? "Run on its hosts" : "Tried out here",
    figure(
      "Predicted, alone and together",
      "What a stage was predicted to take, what it took alone, and with all stages at work.",
      ranges(
        "Predicted, alone and together",
        rows.flatMap((r) =>
          (["predicted", "alone_s", "together_s"] as const).map((key) => {
            const value = key === "predicted" ? r.planned.time_s : r.stage[key];
            const halves = {
              predicted: r.planned.time_ci_s,
              alone_s: r.stage.alone_ci_s,
              together_s: r.stage.together_ci_s,
            };
            const [low, high] = around(value, halves[key]);
            return {
              name: `${r.i + 1}. ${r.planned.host}, ${key.replace("_s", "")}`,
              value,
              low,
              high,
              sign: key === "predicted" ? "less" : "more",
              tip: [interval(seconds, value, low, high)],
            };
          }),
        ),
        seconds,
        { origin: 0 },
      ),
      {
        label: "Tried out",
        columns: [
          { title: "Stage", field: "stage", value: (r) => r.i + 1 },
          { title: "Host", field: "host", value: (r) => r.planned.host },
          {
            title: "Predicted",
            field: "predicted_s",
            value: (r) => r.planned.time_s,
            show: (r) => seconds(r.planned.time_s),
          },
          column("Alone", "alone_s"),
          column("Together", "together_s"),
          column("Handling", "handling_s"),
          { title: "Busy", field: "busy", value: (r) => r.stage.busy, show: (r) => percent(r.stage.busy) },
          {
            title: "Memory predicted",
            field: "predicted_bytes",
            value: (r) => r.planned.memory_bytes,
            show: (r) => bytes(r.planned.memory_bytes),
          },
          {
            title: "Memory",
            field: "memory_bytes",
            value: (r) => r.stage.memory_bytes,
            show: (r) => bytes(r.stage.memory_bytes),
          },
        ],
        rows,
      },
    ),
    facts([
      ["Throughput measured", rate(simulation.throughput_per_s)],
      ["predicted", rate(data.throughput_per_s)],
      ["Latency measured", seconds(simulation.latency_s)],
      ["predicted", seconds(data.latency_s)],
      [
        "Noise",
        simulation.disturbed_launches
          ? `something else ran during ${simulation.disturbed_launches} of ${simulation.launches} launches`
          : null,
      ],
    ]),
  );
}

// What a schedule would reach with one more host of a type: for throughput the period, from which it follows.
function oneMore(data: Schedule): HTMLElement | null {
  type More = Schedule["one_more"][0];
  if (data.one_more.length === 0) return null;
  const keys = ["period_s", "latency_s", "usd_per_hour"] as const;
  const key = keys.find((k) => k in data.one_more[0]) ?? "period_s";
  const figures: Record<typeof key, [string, (value: Num) => string]> = {
    period_s: ["Throughput", (s) => rate(s ? data.batch_size / s : null)],
    latency_s: ["Latency", seconds],
    usd_per_hour: ["Price per hour", dollars],
  };
  const [title, show] = figures[key];
  return section(
    "One more host",
    h("p", {}, "What the best schedule would reach if there were one more host of a type."),
    table<More>({
      label: "One more host",
      columns: [
        { title: "One more of", field: "type", value: (r) => r.type },
        { title: "Hosts now", field: "hosts", value: (r) => r.hosts },
        { title: "Used now", field: "used", value: (r) => r.used },
        { title, field: key, number: true, value: (r) => r[key], show: (r) => show(r[key] ?? null) },
      ],
      rows: data.one_more,
    }),
  );
}

export function schedule({ data }: Report<Schedule, object>): Node[] {
  const about = facts([
    ["Model", data.model_name],
    ["Data type", data.dtype],
    ["Batch", integer(data.batch_size)],
    ["Layers", integer(data.layers)],
    ["Best for", data.objective],
    ["Throughput, predicted", rate(data.throughput_per_s)],
    ["Latency, predicted", seconds(data.latency_s)],
    ["Price", data.usd_per_hour === null ? null : `${dollars(data.usd_per_hour)} per hour`],
  ]);
  const more = oneMore(data);
  if (!data.feasible)
    return [more, section("What was asked for", about)].filter((node): node is HTMLElement => Boolean(node));
  const batches = tasks(data);
  const lanes = data.stages.flatMap((s, i) => (s.link ? [`${i + 1}. ${s.host}`, "link"] : [`${i + 1}. ${s.host}`]));
  return [
    section(
      "Pipeline",
      h("ol", { class: "pipeline" }, ...data.stages.flatMap((stage, i) => stageBox(data, stage, i))),
      table({
        label: "Stages",
        file: "stages",
        columns: [
          { title: "Stage", field: "stage", value: (r) => r.i + 1 },
          { title: "Host", field: "host", value: (r) => r.stage.host },
          { title: "Type", field: "type", value: (r) => r.stage.type },
          { title: "First layer", field: "first_layer", value: (r) => r.stage.first_layer },
          { title: "Last layer", field: "last_layer", value: (r) => r.stage.last_layer },
          { title: "Time", field: "time_s", value: (r) => r.stage.time_s, show: (r) => seconds(r.stage.time_s) },
          {
            title: "±",
            field: "time_ci_s",
            value: (r) => r.stage.time_ci_s,
            show: (r) => half(r.stage.time_s, r.stage.time_ci_s),
          },
          { title: "Idle", field: "idle", value: (r) => r.stage.idle, show: (r) => percent(r.stage.idle) },
          {
            title: "Memory",
            field: "memory_bytes",
            value: (r) => r.stage.memory_bytes,
            show: (r) => bytes(r.stage.memory_bytes),
          },
          {
            title: "Available",
            field: "available_bytes",
            value: (r) => r.stage.available_bytes,
            show: (r) => bytes(r.stage.available_bytes),
          },
          {
            title: "Link",
            field: "link_s",
            value: (r) => r.stage.link?.time_s,
            show: (r) => (r.stage.link ? seconds(r.stage.link.time_s) : ""),
          },
          {
            title: "Link bytes",
            field: "link_bytes",
            value: (r) => r.stage.link?.bytes,
            show: (r) => (r.stage.link ? bytes(r.stage.link.bytes) : ""),
          },
        ],
        rows: data.stages.map((stage, i) => ({ stage, i })),
      }),
    ),
    section(
      "In time",
      figure(
        "Batches in the pipeline",
        `The first ${BATCHES} batches, each in its colour; what is framed is the bottleneck.`,
        gantt("Batches in the pipeline", lanes, batches, seconds),
        {
          label: "Batches in the pipeline",
          file: "batches",
          columns: [
            { title: "Batch", field: "batch", value: (t) => t.colour + 1 },
            {
              title: "Where",
              field: "where",
              value: (t) => (t.thin ? `link behind ${lanes[t.lane - 1]}` : lanes[t.lane]),
            },
            { title: "From", field: "from_s", value: (t) => t.start, show: (t) => seconds(t.start) },
            { title: "To", field: "to_s", value: (t) => t.end, show: (t) => seconds(t.end) },
          ],
          rows: batches,
        },
      ),
    ),
    simulated(data),
    more,
    section("What was asked for", about),
  ].filter((node): node is HTMLElement => Boolean(node));
}
