// The reports' JSON is typed by docs/*.schema.json (types.mjs); here is what pages add to it.
import type { KernelRow, MeanInterval, NodeRow, OperatorRow } from "prony/profile";
import type { Schedule } from "prony/schedule";
import type { Trace } from "prony/trace";

export type { LayerProfile } from "prony/layer-profile";
export type { Ledger, LoadRow, Ops, Profile, Recorded, Result, Trial } from "prony/profile";
export type { Compared, ComparisonRow, ProfileComparison as Comparison } from "prony/profile-comparison";
export type { Schedule } from "prony/schedule";
export type { Trace } from "prony/trace";
export type { Difference as TraceDifference, TraceComparison } from "prony/trace-comparison";

// Pages have the longest rows, and say how many there are besides.
declare module "prony/profile" {
  interface Ops {
    operators_left_out?: number;
    nodes_left_out?: number;
  }
}
declare module "prony/trace-comparison" {
  interface TraceComparison {
    nodes_left_out?: number;
  }
}

export type Num = number | null;
export type OpsRow = MeanInterval & Pick<KernelRow, "calls"> & Partial<OperatorRow & NodeRow>;
export type Stage = Schedule["stages"][number];
export type Group = Trace["cpu"]["groups"][number] & Partial<Trace["gpu"]["groups"][number]>;

export interface GroupTable {
  duration_us: number;
  count: number;
  groups: Group[];
  groups_left_out?: number;
}

export interface ResultView {
  name: string;
  backend: string;
  measured: boolean;
  verdict: string; // "best", "best?" where others may be as fast, "same", "slower", "faster", "unsure", or ""
  half_width: Num;
  item_ns: Num;
  inferences_per_s: Num;
  gflop_per_s: Num;
  usd_per_million: Num;
  load_ns: Num;
  first_run_ns: Num;
  peak_bytes: Num;
  profiled?: string; // which runs the ledger is of
  placement?: string; // which provider has which nodes
  front: boolean;
  best: string[];
  scaling: Num[];
  samples?: {
    count: number;
    block: number[];
    launch: number[];
    place: number[];
    low_ns: number[];
    high_ns?: number[];
    median_ns?: number[];
    samples?: number[];
  };
  ecdf?: { ns: number[]; rank: number[] };
  holds_per_s?: Num;
  holds_usd_per_million?: Num;
  histogram?: { low_ns: number; high_ns: number; above: number; counts: number[] };
}

export interface Decision {
  best: Num; // results, by their index
  next: Num;
  certainty: "certain" | "probably" | "same" | "unknown" | null;
  outputs: "agree" | "partly" | "differ" | null;
  cure: string | null;
}

export interface ProfileView {
  text: string;
  markdown?: string; // what follows is missing in pages of earlier versions
  decision?: Decision; // where one model was measured at one size
  warnings?: string; // a line for each
  flags: Record<string, string>;
  axes: (string | null)[];
  results: ResultView[];
  labels?: string[];
  local?: string;
}

export interface Timeline {
  run: number;
  events: number;
  shown: number;
  pixels: number;
  duration_us: number;
  lanes: { kind: string; number: number }[];
  names: string[];
  ops: string[];
  spans: { lane: number[]; name: number[]; op: number[]; start_us: number[]; duration_us: number[] };
  rest: { lane: number[]; pixel: number[]; count: number[]; busy_us: number[] };
  memory?: Levels;
}

// What an allocator had in use before and after each node of a run.
export interface Levels {
  run: number;
  provider: string | null;
  nodes: number; // also those that aren't listed
  peak_bytes: number;
  node: string[];
  op: string[];
  before_bytes: number[];
  after_bytes: number[];
  allocator_peak_bytes: number[];
  arena_bytes: number[];
}

export interface TraceView {
  text: string;
  nodes?: { node: string; op?: string; duration_us: number; count: number; pct: Num }[];
  nodes_left_out?: number;
  timeline?: Timeline;
}

export interface TraceComparisonView {
  timelines?: (Timeline | null)[]; // of the first and the second; missing in pages of earlier versions
}

export interface Layers {
  schema: "prony.layers/1";
  file: string;
  layers: {
    layer: number;
    nodes: number;
    parameters: number;
    weight_bytes: number;
    flops: Num;
    out: { name: string; bytes: Num }[];
  }[];
}

export interface Report<Data, View> {
  name: string;
  data: Data;
  view: View;
}

export interface Page {
  schema: "prony.page/1";
  prony_version: string;
  reports: Report<{ schema: string; verdict?: string }, { text?: string | null; markdown?: string | null }>[];
}
