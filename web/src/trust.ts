// Everything that bears on how far to trust the figures: what was fed, how it was measured, on what.
import { h } from "./dom";
import { facts, section } from "./figures";
import { bytes, count, duration, integer, percent, seconds, shorten, significant } from "./format";
import { type Row, flagged, modelOf } from "./rows";
import { type Column, table } from "./table";
import type { Profile, ProfileView } from "./types";

type Point = Profile["points"][number];
type Machine = Profile["environment"];

const shape = (dims: (number | null)[]): string => (dims.length > 0 ? dims.join("×") : "scalar");

function inputs(data: Profile): HTMLElement | null {
  const rows = data.points.flatMap((point, i) => point.inputs.map((input) => ({ point, input, i })));
  if (rows.length === 0) return null;
  const several = data.points.length > 1;
  const work = (p: Point): number | null => (p.flops === null ? null : p.flops);
  const columns: Column<(typeof rows)[number]>[] = [
    { title: "Input", field: "input", value: (r) => r.input.name },
    { title: "Type", field: "type", value: (r) => r.input.type },
    { title: "Shape", field: "shape", value: (r) => shape(r.input.shape) },
    { title: "Values", field: "source", value: (r) => r.input.source ?? "not known" },
    {
      title: "FLOP",
      field: "flops",
      help: "of one run",
      value: (r) => work(r.point),
      show: (r) =>
        work(r.point) === null ? "not known" : `${r.point.flops_complete ? "" : "at least "}${count(work(r.point))}`,
    },
    { title: "Batch", field: "batch", value: (r) => r.point.batch },
  ];
  if (several)
    columns.unshift({ title: "Sizes", field: "sizes", value: (r) => modelOf(data, r.i) + (r.point.label || "all") });
  return h("div", {}, h("h3", {}, "Inputs"), table({ label: "Inputs", file: "inputs", columns, rows }));
}

function processes(data: Profile, view: ProfileView, rows: Row[]): HTMLElement {
  const known = (values: (number | null)[]): string => {
    const some = values.filter((v): v is number => v !== null);
    if (some.length === 0) return "";
    const [low, high] = [Math.min(...some), Math.max(...some)];
    return low === high ? integer(low) : `${integer(low)} to ${integer(high)}`;
  };
  const host = (r: Row): string =>
    r.result.backend.processor ?? (r.result.backend.hardware === "local" ? (data.environment.cpu ?? "") : "");
  const columns: Column<Row>[] = [
    { title: "Backend", field: "backend", value: (r) => r.view.name },
    { title: "Processor", field: "processor", value: host },
    { title: "Runtime", field: "runtime", value: (r) => r.result.backend.runtime_version ?? "never started" },
    { title: "Library", field: "library", value: (r) => r.result.backend.library ?? "" },
    { title: "Processes", field: "processes", value: (r) => r.result.launches.length },
    {
      title: "Runs",
      field: "runs",
      value: (r) => r.view.samples?.count ?? 0,
      show: (r) => integer(r.view.samples?.count ?? 0),
    },
    {
      title: "Warm-up runs",
      field: "warmup_runs",
      help: "in each process",
      value: (r) => known(r.result.launches.map((l) => l.warmup_runs)),
    },
    {
      title: "Settled",
      field: "settled",
      help: "processes in which times had settled when warm-up ended",
      value: (r) => r.result.launches.filter((l) => l.settled).length,
      show: (r) => `${r.result.launches.filter((l) => l.settled).length} of ${r.result.launches.length}`,
    },
    {
      title: "Redone",
      field: "redone_blocks",
      help: "blocks that were repeated because the machine was disturbed",
      value: (r) => r.result.redone_blocks,
    },
    {
      title: "Outliers",
      field: "outliers",
      help: "samples beyond 3 interquartile ranges from the quartiles; they are included",
      value: (r) => r.result.stats?.outliers,
      show: (r) => integer(r.result.stats?.outliers ?? 0),
    },
    {
      title: "$/hour",
      field: "usd_per_hour",
      value: (r) => r.result.backend.usd_per_hour,
      show: (r) => (r.result.backend.usd_per_hour === null ? "not known" : `$${r.result.backend.usd_per_hour}`),
    },
    {
      title: "Caution",
      field: "flags",
      value: (r) => r.result.flags.map((flag) => view.flags[flag] ?? flag).join("; "),
    },
  ];
  const some = columns.filter(
    (c) => c.field === "backend" || rows.some((r) => ![null, undefined, "", 0].includes(c.value(r) as null)),
  );
  return h(
    "div",
    {},
    h("h3", {}, "Backends and their processes"),
    table({ label: "Backends and their processes", file: "processes", columns: some, rows }),
  );
}

const load = (m: Machine): string | null =>
  m.load_before === null && m.load_after === null
    ? null
    : `${significant(m.load_before, 2)} before, ${significant(m.load_after, 2)} after (one-minute average)`;

function machine(m: Machine, timer: number | null, canary: number | null): [string, string | null][] {
  return [
    ["Processor", m.cpu && `${m.cpu}, ${integer(m.cores)} cores${m.mhz ? `, ${integer(m.mhz)} MHz` : ""}`],
    ["Memory", m.memory_bytes === null ? null : bytes(m.memory_bytes)],
    ["System", [m.os, m.kernel].filter(Boolean).join(", ")],
    ["Load", load(m)],
    ["Sandbox", m.sandbox],
    ["Reading the clock", timer === null ? null : `${significant(timer)} ns, part of every time`],
    ["Canary", canary === null ? null : `${duration(canary)} at best: a fixed piece of work that shows disturbance`],
  ];
}

function settings(data: Profile): [string, string | null][] {
  const s = data.settings;
  const given = (n: number | null, what: string): string | null => ((n ?? 0) > 0 ? `${integer(n)} ${what}` : null);
  return [
    [
      "Stopped at",
      s.precision === null || s.repeats ? null : `± ${percent(s.precision)} of the median, if time allowed`,
    ],
    ["Time allowed", s.max_time_s === null ? null : seconds(s.max_time_s)],
    [
      "Asked for",
      [given(s.launches, "processes"), given(s.repeats, "runs"), given(s.warmups, "warm-up runs")]
        .filter(Boolean)
        .join(", "),
    ],
    ["Counts from", s.smallest_difference === null ? null : percent(s.smallest_difference)],
    ["Outputs may differ by", s.tolerance === null ? null : percent(s.tolerance)],
    ["Compared with", s.reference ?? null],
    ["Seed", s.seed === null ? null : String(s.seed)],
  ];
}

export function trust(data: Profile, view: ProfileView, rows: Row[]): HTMLElement {
  const hosts = data.hosts ?? [];
  return section(
    "How it was measured",
    facts([
      ...(data.models ?? (data.model ? [data.model] : [])).map((m): [string, string] => [
        m.name ? `Model ${shorten(m.name, 60)}` : "Model",
        `${m.path}, ${bytes(m.bytes)}, ${count(m.parameters)} parameters`,
      ]),
      ["Measured", data.created],
      ["By", data.prony_version && `prony ${data.prony_version}`],
      ["Runtimes", [...new Set(data.results.map((r) => r.backend.runtime_version).filter(Boolean))].join(", ")],
      ...(hosts.length > 0 ? [] : machine(data.environment, data.timer_ns ?? null, data.canary?.best_ns ?? null)),
      ...(data.profiles ? [] : settings(data)),
    ]),
    ...hosts.flatMap((host) => [
      h("h3", {}, "Host ", h("bdi", {}, host.hardware)),
      facts(machine(host, host.timer_ns, host.canary_best_ns)),
    ]),
    inputs(data),
    rows.length > 0 && processes(data, view, rows),
    rows.some((r) => r.result.flags.length > 0) &&
      h(
        "p",
        {},
        "Flags: ",
        ...[...new Set(rows.flatMap((r) => r.result.flags))].map((flag) =>
          h("span", { class: "meaning" }, flagged([flag], view.flags), `${view.flags[flag] ?? flag}. `),
        ),
      ),
    ...(data.profiles ? data.notes.map((note) => h("p", {}, h("bdi", {}, shorten(note, 1000)))) : []),
  );
}
