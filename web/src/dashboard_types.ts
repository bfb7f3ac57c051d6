// What the service answers. Any number may be unknown.

import type { Session as AnySession, Status as AnyStatus, You } from "prony/status";

type Known = number | null;

export type { Cache, Hardware, Worker, You } from "prony/status";

// With what only the page is told.
export type Session = AnySession & { yours: boolean };
export type Status = Omit<AnyStatus, "sessions"> & { sessions: Session[]; time_ms: number; you: You };

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
