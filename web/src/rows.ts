// What the parts of a profile's page share: a row for each result.
import { explained, h } from "./dom";
import type { Profile, Result, ResultView } from "./types";

export interface Row {
  result: Result;
  view: ResultView;
  index: number;
}

export const SHOWN = 40; // rows of a picture

// What is said of a limit that no rate holds as far as is known: all were tried, or not.
export function noRate(result: Result): "no rate" | "not known" {
  const slo = result.load?.slo;
  const some = slo?.trials.some((t) => t.verdict === "holds") ?? false;
  return slo && (slo.single_fails || (slo.complete && !some)) ? "no rate" : "not known";
}

// Which model a point is of, where there are several.
export const modelOf = (data: Profile, point: number): string => {
  const models = data.models ?? [];
  return models.length > 1 ? `${models[point % models.length].name ?? ""} ` : "";
};

export function flagged(flags: string[], why: Record<string, string>): Node {
  return h("span", {}, ...flags.map((flag) => explained(flag, why[flag] ?? flag, { class: "flag" })));
}
