// The reports' JSON, as far as pages show it; docs/*.schema.json say it all.

export type Num = number | null;

export interface Interval {
  estimate: Num;
  low: Num;
  high: Num;
}

export interface MeanInterval {
  mean_ns: Num;
  low_ns: Num;
  high_ns: Num;
}

export interface Stats {
  median_ns: Num;
  low_ns: Num;
  high_ns: Num;
  mean_ns: Num;
  min_ns: Num;
  max_ns: Num;
  p90_ns: Num;
  p95_ns: Num;
  p99_ns: Num;
  p999_ns: Num;
  spread: Num;
  outliers: number;
}

export interface OpsRow extends MeanInterval {
  name?: string;
  op?: string;
  provider?: string | null;
  nodes?: number;
  calls: Num;
  flop_per_s?: Num;
  onnx?: { name: string | null; op: string | null } | null;
}

export interface Change {
  name: string;
  ns: number;
  baseline_ns: number;
}

export interface Ops {
  error: string | null;
  runs: number;
  ledger: Record<string, MeanInterval> | null;
  operators: OpsRow[];
  operators_left_out?: number;
  nodes: OpsRow[];
  nodes_left_out?: number;
  kernels: OpsRow[];
  difference: { baseline: number; operators: Change[]; nodes: Change[] } | null;
}

export interface LoadRow {
  asked_per_s: Num;
  workers: number;
  requests: number;
  achieved_per_s: Num;
  p50_ns: Interval | null;
  p90_ns: Interval | null;
  p95_ns: Interval | null;
  p99_ns: Interval | null;
  p999_ns: Interval | null;
  mean_ns: Num;
  max_ns: Num;
  utilisation: Num;
  flags: string[];
}

export interface Trial {
  rate_per_s: number;
  requests: number;
  percentile_ns: Num;
  share_over: Interval;
  verdict: string;
}

export interface Load {
  rows: LoadRow[];
  slo: { percentile: number; limit_ns: number; trials: Trial[] } | null;
  error: unknown;
}

export interface Result {
  backend: { name: string; runtime_version: string | null; usd_per_hour: Num };
  point: number;
  error: { code?: string; message?: string; text?: string } | null;
  flags: string[];
  verdict: string;
  ratio: Interval | null;
  stats: Stats | null;
  launches: unknown[];
  ops: Ops | null;
  load?: Load;
}

export interface Series {
  count: number;
  mean_ns: Num;
}

export interface Segment {
  graph: number | null;
  local: Series | null;
  results: { times: Series; failed: number; failures: { message: string; count: number }[] }[];
}

export interface Recorded {
  function: string;
  runs: number;
  discarded_runs: number;
  repeats: number;
  compiled: boolean;
  segments: Segment[];
  local_ns: Num;
  totals: { backend_ns: Num; total_ns: Num; usd_per_million: Num }[];
}

export interface Profile {
  schema: "prony.profile/1";
  created: string | null;
  prony_version: string | null;
  model: { path: string | null; bytes: Num; parameters: Num } | null;
  points: {
    label: string;
    batch: number;
    flops: Num;
    swept?: { name: string; size: Num }[];
  }[];
  environment: Record<string, string | number | null>;
  notes: string[];
  results: Result[];
  graphs?: { id: number; name: string; local_reason: string | null }[];
  profiles?: Recorded[];
}

export interface ResultView {
  name: string;
  backend: string;
  measured: boolean;
  half_width: Num;
  item_ns: Num;
  inferences_per_s: Num;
  gflop_per_s: Num;
  usd_per_million: Num;
  load_ns: Num;
  first_run_ns: Num;
  peak_bytes: Num;
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
    samples?: number[];
  };
  histogram?: { low_ns: number; high_ns: number; above: number; counts: number[] };
}

export interface ProfileView {
  answer: string;
  text: string;
  flags: Record<string, string>;
  axes: (string | null)[];
  results: ResultView[];
  labels?: string[];
  local?: string;
}

export interface PerRun {
  mean_us: Num;
  mean_low_us: Num;
  mean_high_us: Num;
  p50_us: Num;
  p90_us: Num;
  max_us: Num;
  first_us: Num;
}

export interface Group {
  node?: string;
  op?: string;
  provider?: string;
  input_type_shape?: string;
  kernel?: string;
  symbol?: string;
  dimensions?: string;
  duration_us: number;
  pct: Num;
  count: number;
  per_run: PerRun;
}

export interface GroupTable {
  duration_us: number;
  count: number;
  groups: Group[];
  groups_left_out?: number;
}

export interface Trace {
  schema: "prony.trace/1";
  trace: { name: string; bytes: number; events: number; passed_over: number; lost: number };
  runs: { found: number; analysed: number; selected: string; list: [number, number, number][] | null };
  warnings: string[];
  ledger: Record<string, { duration_us: number; pct: Num; per_run: PerRun }> | null;
  cpu: GroupTable;
  gpu: GroupTable;
  mapping?: Record<string, string | number | null>[];
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
}

export interface TraceView {
  text: string;
  nodes?: { node: string; op?: string; duration_us: number; count: number; pct: Num }[];
  nodes_left_out?: number;
  timeline?: Timeline;
}

export interface TraceDifference {
  node?: string;
  op?: string;
  provider?: string;
  input_type_shape?: string;
  first_median_us: Num;
  second_median_us: Num;
  ratio: Num;
  ratio_low: Num;
  ratio_high: Num;
  p_holm: Num;
  verdict: string;
}

export interface TraceComparison {
  schema: "prony.trace-comparison/1";
  first: { name: string; analysed: number };
  second: { name: string; analysed: number };
  run: TraceDifference | null;
  groups: TraceDifference[];
  nodes?: TraceDifference[];
  nodes_left_out?: number;
}

export interface Compared {
  before: Num;
  after: Num;
  ratio: Num;
  ratio_low: Num;
  ratio_high: Num;
  p_holm: Num;
  differs: boolean;
}

export interface ComparisonRow {
  backend: string;
  sizes: string;
  verdict: string;
  regression: boolean;
  time_ns: Compared;
  load_ns: Compared;
  first_run_ns: Compared;
  peak_bytes: Compared;
}

export interface Comparison {
  schema: "prony.profile-comparison/1";
  regressions: number;
  fail_over: Num;
  before: { file: string; created: string | null };
  files: {
    after: { file: string; created: string | null };
    machines_differ: boolean;
    must_clear: Num;
    differences: { what: string; before: string | null; after: string | null }[];
    rows: ComparisonRow[];
  }[];
}

export interface Whole {
  time_s: number;
  time_ci_s: Num;
}

export interface LayerProfile {
  schema: "prony.layer-profile/1";
  file: string;
  model_name: string;
  dtype: string;
  batch_size: number;
  layers: number;
  backend: string;
  runtime: string | null;
  cpu: string | null;
  profile_data: {
    layer: number;
    time_s: number;
    time_ci_s: Num;
    memory_mb: number;
    shape_in: number[][];
    shape_out: number[][];
    samples: number;
    flags: string[];
  }[];
  sum: Whole;
  whole: { not_fused: Whole; as_it_is: Whole; sum_ratio: number; saved_by_fusing: number } | null;
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

export interface Stage {
  host: string;
  type: string;
  first_layer: number;
  last_layer: number;
  time_s: number;
  time_ci_s: Num;
  idle: number;
  memory_bytes: number;
  available_bytes: number;
  link: { bytes: number; mbps: number; time_s: number; idle: number } | null;
}

export interface Schedule {
  schema: "prony.schedule/1";
  model_name: string;
  dtype: string;
  batch_size: number;
  layers: number;
  objective: string;
  feasible: boolean;
  stages: Stage[];
  bottleneck: { kind: "stage" | "link"; stage: number } | null;
  period_s: Num;
  throughput_per_s: Num;
  throughput_ci_per_s: Num;
  latency_s: Num;
  latency_ci_s: Num;
  usd_per_hour: Num;
  one_more: Record<string, string | number | null>[];
  simulation: Record<string, unknown> | null;
}

export interface Report<Data, View> {
  name: string;
  data: Data;
  view: View;
}

export interface Page {
  schema: "prony.page/1";
  prony_version: string;
  reports: Report<{ schema: string }, { text?: string | null }>[];
}
