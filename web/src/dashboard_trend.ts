// How medians went over time, of each model on each backend: where they changed, and any two compared.
import { type Curve, type Point, curves } from "./charts";
import type { Measurement, Summary } from "./dashboard_types";
import { h } from "./dom";
import { figure } from "./figures";
import { duration, interval, moment, shorten } from "./format";
import { bind, recall, remember } from "./state";
import { coloursOf } from "./theme";

const CURVES = 12;

interface Moment {
  of: Measurement;
  row: Summary["results"][number];
  change: "" | "slower" | "faster"; // against the one before
}

// The measurements of a model, oldest first, by the names of their rows.
function series(rows: Measurement[], model: string): Map<string, Moment[]> {
  const found = new Map<string, Moment[]>();
  const own = rows.filter((x) => x.model === model && x.created_ms !== null);
  for (const of of own.sort((a, b) => a.id - b.id))
    for (const row of of.summary?.results ?? []) {
      if (row.median_ns === null) continue;
      const before = found.get(row.name) ?? [];
      found.set(row.name, [...before, { of, row, change: changeOf(before[before.length - 1]?.row, row) }]);
    }
  return found;
}

// A change is one where the intervals of both don't touch.
function changeOf(before: Moment["row"] | undefined, now: Moment["row"]): Moment["change"] {
  if (before?.low_ns == null || before.high_ns == null || now.low_ns === null || now.high_ns === null) return "";
  return now.low_ns > before.high_ns ? "slower" : now.high_ns < before.low_ns ? "faster" : "";
}

export interface Trend {
  element: HTMLElement;
  update: (rows: Measurement[]) => void;
}

export function trend(): Trend {
  let rows: Measurement[] = [];
  let model = "";
  let drawn = "";
  const select = h("select", { "aria-label": "Model" });
  const place = h("div");
  const pickers = [h("select", { "aria-label": "Before" }), h("select", { "aria-label": "After" })];
  const link = h(
    "a",
    { target: "_blank", rel: "noopener noreferrer", "aria-label": "Compare, in a new tab" },
    "Compare",
  );
  const comparing = h(
    "div",
    { class: "tools" },
    h("label", {}, "Before ", pickers[0]),
    h("label", {}, "After ", pickers[1]),
    link,
  );
  const element = h(
    "div",
    { hidden: true },
    h("h3", {}, "Medians over time"),
    h("div", { class: "tools" }, h("label", {}, "Model ", select)),
    place,
    comparing,
  );

  const aim = (): void => {
    const [before, after] = pickers.map((p) => p.value);
    link.hidden = !before || !after || before === after;
    link.href = `/report?id=${encodeURIComponent(after)}&before=${encodeURIComponent(before)}`;
  };
  pickers.forEach((picker, i) =>
    picker.addEventListener("change", () => {
      remember(i === 0 ? "before" : "after", picker.value || null);
      aim();
    }),
  );
  // Points that are clicked become the two that are compared, the earlier one first.
  function choose(id: number): void {
    const [before, after] = [pickers[1].value || String(id), String(id)].sort((a, b) => Number(a) - Number(b));
    [before, after].forEach((value, i) => {
      pickers[i].value = value;
      remember(i === 0 ? "before" : "after", value);
    });
    aim();
  }

  function draw(): void {
    const all = [...series(rows, model)].slice(0, CURVES);
    const colours = coloursOf(
      "curve",
      all.map(([name]) => name),
    );
    const lines = all.map(([name, moments], i): Curve => {
      const points = moments.map(({ of, row, change }): Point => ({
        x: of.created_ms as number,
        y: row.median_ns as number,
        low: row.low_ns,
        high: row.high_ns,
        label: change ? (change === "slower" ? "▲ slower" : "▼ faster") : undefined,
        choose: () => choose(of.id),
        tip: [
          shorten(name, 120),
          interval(duration, row.median_ns, row.low_ns, row.high_ns),
          moment(of.created_ms),
          change ? `${change} than the measurement before` : "",
        ].filter(Boolean),
      }));
      return { name, points, line: true, colour: colours[i] };
    });
    const ys = lines.flatMap((line) => line.points.map((p) => p.y));
    const times = new Set(lines.flatMap((line) => line.points.map((p) => p.x)));
    const flat = all.flatMap(([name, moments]) => moments.map((m) => ({ name, ...m })));
    place.replaceChildren(
      figure(
        shorten(model, 80) || "A model without a name",
        "Medians of the measurements that are listed below, with their 95 % intervals. A change is marked where an " +
          "interval doesn't touch the one before. A click on two points chooses them to compare.",
        curves({
          title: "Medians over time",
          xTitle: "time",
          yTitle: "median",
          curves: lines,
          showX: (v) => moment(v ?? null),
          ticksX: times.size === 1 ? [...times] : undefined, // around one moment, round numbers are years away
          showY: duration,
          logY: ys.length > 0 && Math.max(...ys) / Math.min(...ys) > 20,
        }),
        {
          label: "Medians over time",
          file: "medians",
          columns: [
            { title: "Row", field: "row", value: (m) => m.name },
            {
              title: "Began",
              field: "began",
              value: (m) => new Date(m.of.created_ms as number).toISOString(),
              show: (m) => moment(m.of.created_ms),
            },
            {
              title: "Median",
              field: "median_ns",
              value: (m) => m.row.median_ns,
              show: (m) => duration(m.row.median_ns),
            },
            { title: "From", field: "low_ns", value: (m) => m.row.low_ns, show: (m) => duration(m.row.low_ns) },
            { title: "To", field: "high_ns", value: (m) => m.row.high_ns, show: (m) => duration(m.row.high_ns) },
            { title: "Change", field: "change", value: (m) => m.change },
          ],
          rows: flat,
        },
      ),
    );
    const ids = [...new Map(flat.map((m) => [m.of.id, m.of])).values()].sort((a, b) => a.id - b.id);
    comparing.hidden = ids.length < 2;
    pickers.forEach((picker, i) => {
      const was = recall(i === 0 ? "before" : "after"); // the reader's choice
      picker.replaceChildren(...ids.map((x) => h("option", { value: x.id }, `${moment(x.created_ms)} (${x.id})`)));
      const last = String(ids[Math.max(0, ids.length - 2 + i)]?.id ?? "");
      picker.value = ids.some((x) => String(x.id) === was) ? (was as string) : last;
    });
    aim();
  }

  select.addEventListener("change", () => {
    model = select.value;
    remember("model", model, true);
    draw();
  });
  const chosen = (): string | undefined => [...select.options].find((option) => option.value === model)?.value;
  const result: Trend = {
    element,
    update(next) {
      rows = next;
      const known = [...new Set(rows.filter((x) => x.summary?.results.length).map((x) => x.model ?? ""))];
      const what = JSON.stringify(rows.filter((x) => x.summary).map((x) => x.id));
      element.hidden = known.length === 0;
      if (what === drawn || known.length === 0) return;
      drawn = what;
      select.replaceChildren(...known.map((name) => h("option", { value: name }, shorten(name, 80) || "(no name)")));
      model = chosen() ?? known[0];
      select.value = model;
      draw();
    },
  };
  bind("model", (value) => {
    model = value ?? select.options[0]?.value ?? "";
    if (chosen() === undefined) return;
    select.value = model;
    draw();
  });
  for (const [i, key] of ["before", "after"].entries())
    bind(key, (value) => {
      if (value !== null) pickers[i].value = value;
      aim();
    });
  return result;
}
