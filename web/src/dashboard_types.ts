// What the service answers. Any number may be unknown.

type Known = number | null;

export interface Hardware {
  name: string;
  processor: string | null;
  usd_per_hour: Known;
  hosts: Known;
  free: Known;
  waiting: Known;
  paused: boolean;
  note: string | null;
}

export interface Session {
  id: string;
  user: string | null;
  state: string;
  backends: string[];
  age_ms: Known;
  waited_ms: Known;
  idle_ms: Known;
  place: Known;
  models: Known;
  runs: Known;
  note: string | null;
  yours: boolean;
}

export interface Worker {
  id: string | null;
  name: string;
  hardware: string;
  state: string;
  software: string[];
  sandbox: string | null;
  connected_ms: Known;
  session: string | null;
  user: string | null;
  held_ms: Known;
  note: string | null;
}

export interface Cache {
  blobs: Known;
  bytes: Known;
  limit_bytes: Known;
  hits: Known;
  misses: Known;
}

export interface You {
  user: string | null;
  admin: boolean;
  signed_in_by: "token" | "loopback";
}

export interface Status {
  version: string | null;
  uptime_ms: Known;
  time_ms: number;
  draining: boolean;
  notice: string | null;
  hardware: Hardware[];
  sessions: Session[];
  sessions_others: Known;
  sessions_left_out: Known;
  workers_left_out: Known;
  workers: Worker[];
  cache: Cache | null;
  you: You;
}

// What an administrator orders.
export interface Order {
  action: "close" | "drain" | "disable" | "enable" | "pause" | "resume" | "notice";
  target?: string;
  text?: string;
}

export interface Summary {
  verdict: string;
  results: { name: string; median_ns: Known; low_ns: Known; high_ns: Known }[];
}

export interface Measurement {
  id: number;
  user: string | null;
  model: string | null;
  backends: string | null;
  created_ms: Known;
  duration_ms: Known;
  report_bytes: Known;
  summary: Summary | null; // what isn't a profile, or is of an older service, has none
}

export interface EndedSession {
  id: number;
  user: string | null;
  backends: string | null;
  created_ms: Known;
  ready_ms: Known;
  ended_ms: Known;
  models: Known;
  runs: Known;
  outcome: string | null;
}
