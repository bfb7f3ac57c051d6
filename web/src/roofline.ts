// How far from what the machine can do nodes are: their rate, and the most it could be, over the work per byte.
import { type Curve, type Point, curves } from "./charts";
import { figure } from "./figures";
import { count, duration, integer, percent, significant } from "./format";
import { pick } from "./pick";
import type { Ops, OpsRow } from "./types";

const DRAWN = 300; // nodes, the longest

interface Placed {
  row: OpsRow;
  roof: string;
  share: number;
  rate: number; // FLOP/s
  perByte: number;
}

function place(row: OpsRow): Placed[] {
  const { roof, roof_share: share, flop_per_s: rate, flops, bytes } = row;
  return roof && share && rate && flops && bytes ? [{ row, roof, share, rate, perByte: flops / bytes }] : [];
}

const tipOf = (p: Placed): string[] => [
  [p.row.op, p.row.name].filter(Boolean).join(" "),
  `${percent(p.share)} of what ${p.roof} allows: ${count(p.rate)}FLOP/s of ${count(p.rate / p.share)}FLOP/s`,
  `${significant(p.perByte)} FLOP per byte, ${duration(p.row.mean_ns)} per run`,
];

export function roofline(ops: Ops, id: (row: OpsRow) => string): HTMLElement | null {
  const all = ops.nodes.flatMap(place).sort((a, b) => (b.row.mean_ns ?? 0) - (a.row.mean_ns ?? 0));
  const drawn = all.slice(0, DRAWN);
  if (drawn.length === 0) return null;
  const point = (p: Placed, y: number, hollow: boolean): Point => ({
    x: p.perByte,
    y,
    hollow,
    tip: tipOf(p),
    choose: () => pick(id(p.row)),
  });
  const roofs = [...new Set(drawn.map((p) => p.roof))].sort();
  const reached: Curve[] = roofs.map((roof) => ({
    name: `limited by ${roof}`,
    line: false,
    points: drawn.filter((p) => p.roof === roof).map((p) => point(p, p.rate, false)),
  }));
  const most: Curve = {
    name: "the most that the machine could do",
    line: false,
    points: drawn.map((p) => point(p, p.rate / p.share, true)),
  };
  return figure(
    "Roofline",
    "Each node has two points above its work per byte: full, the rate that it reaches; hollow, the most that the " +
      "measured machine could do. A click marks the node everywhere." +
      (all.length > drawn.length
        ? ` The ${integer(drawn.length)} longest of ${integer(all.length)} nodes are drawn.`
        : ""),
    curves({
      title: "Roofline",
      xTitle: "FLOP per byte",
      yTitle: "FLOP/s",
      curves: [...reached, most],
      showX: significant,
      showY: count,
      logX: true,
      logY: true,
    }),
    {
      label: "Roofs",
      file: "roofs",
      id: (p) => id(p.row),
      columns: [
        { title: "Node", field: "node", value: (p) => p.row.name ?? "" },
        { title: "Operator", field: "op", value: (p) => p.row.op ?? "" },
        { title: "Roof", field: "roof", help: "what limits it on this machine", value: (p) => p.roof },
        { title: "Of the roof", field: "roof_share", value: (p) => p.share, show: (p) => percent(p.share) },
        { title: "FLOP/s", field: "flop_per_s", value: (p) => p.rate, show: (p) => count(p.rate) },
        {
          title: "FLOP per byte",
          field: "flop_per_byte",
          value: (p) => p.perByte,
          show: (p) => significant(p.perByte),
        },
      ],
      rows: drawn,
    },
  );
}
