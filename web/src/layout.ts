// Places the nodes of a graph in layers, each below those that it needs, with few crossings and straight edges.

export interface Placed {
  x: number[]; // middles of the nodes
  layer: number[];
  layers: number;
  left: number; // what all of it covers
  right: number;
  bends: number[][]; // of each edge: its x at every layer from its first node's on
}

const GAP = 16;
const SWEEPS = 6;
const DUMMIES = 6; // places of edges for each node, at most

type Edge = [number, number];

// Edges that close a circle, as between a group and what is used in its middle, are taken the other way round.
function withoutCircles(n: number, edges: Edge[]): Edge[] {
  const next: number[][] = Array.from({ length: n }, () => []);
  edges.forEach(([from], i) => next[from].push(i));
  const state = new Uint8Array(n); // 1: on the path, 2: done
  const turned = edges.map(([from, to]): Edge => [from, to]);
  for (let root = 0; root < n; root++) {
    const path: { node: number; at: number }[] = state[root] ? [] : [{ node: root, at: 0 }];
    if (path.length > 0) state[root] = 1;
    while (path.length > 0) {
      const top = path[path.length - 1];
      const edge = next[top.node][top.at++];
      if (edge === undefined) {
        state[top.node] = 2;
        path.pop();
        continue;
      }
      const to = edges[edge][1];
      if (state[to] === 1) turned[edge] = [to, top.node];
      else if (state[to] === 0) {
        state[to] = 1;
        path.push({ node: to, at: 0 });
      }
    }
  }
  return turned;
}

// The longest way from a node that needs none.
function layersOf(n: number, edges: Edge[]): number[] {
  const next: number[][] = Array.from({ length: n }, () => []);
  const waiting = new Array<number>(n).fill(0);
  for (const [from, to] of edges) {
    next[from].push(to);
    waiting[to]++;
  }
  const layer = new Array<number>(n).fill(0);
  const ready = waiting.flatMap((w, i) => (w === 0 ? [i] : []));
  for (let i = 0; i < ready.length; i++)
    for (const to of next[ready[i]]) {
      layer[to] = Math.max(layer[to], layer[ready[i]] + 1);
      if (--waiting[to] === 0) ready.push(to);
    }
  return layer;
}

// The places nearest to those that are wanted, in the same order and `apart` from each other: neighbours that
// are in each other's way share the difference.
function separate(wanted: number[], apart: number[]): number[] {
  const offset: number[] = [];
  apart.forEach((d, i) => offset.push(i === 0 ? 0 : offset[i - 1] + d));
  const pools: { sum: number; n: number }[] = [];
  wanted.forEach((w, i) => {
    pools.push({ sum: w - offset[i], n: 1 });
    while (pools.length > 1) {
      const [a, b] = pools.slice(-2);
      if (a.sum / a.n <= b.sum / b.n) break;
      pools.splice(-2, 2, { sum: a.sum + b.sum, n: a.n + b.n });
    }
  });
  let i = 0;
  return pools.flatMap((pool) => Array.from({ length: pool.n }, () => pool.sum / pool.n + offset[i++]));
}

const mean = (values: number[], otherwise: number): number =>
  values.length > 0 ? values.reduce((a, b) => a + b, 0) / values.length : otherwise;

export function layered(widths: number[], given: Edge[]): Placed {
  const n = widths.length;
  const edges = withoutCircles(n, given);
  const layer = layersOf(n, edges);
  const layers = Math.max(0, ...layer) + 1;
  // Long edges have a place in each layer that they cross, unless there are too many.
  const crossings = edges.reduce((sum, [from, to]) => sum + Math.max(0, layer[to] - layer[from] - 1), 0);
  const bent = crossings <= DUMMIES * n + 1000;
  const layerOf = [...layer];
  const wide = [...widths];
  const chains = edges.map(([from, to]) => {
    const chain = [from];
    for (let l = layer[from] + 1; bent && l < layer[to]; l++) {
      layerOf.push(l);
      wide.push(4);
      chain.push(layerOf.length - 1);
    }
    return [...chain, to];
  });
  const above: number[][] = layerOf.map(() => []);
  const below: number[][] = layerOf.map(() => []);
  for (const chain of chains)
    for (let i = 1; i < chain.length; i++) {
      below[chain[i - 1]].push(chain[i]);
      above[chain[i]].push(chain[i - 1]);
    }
  const rows: number[][] = Array.from({ length: layers }, () => []);
  layerOf.forEach((l, i) => rows[l].push(i));

  // The order within layers: each where its neighbours are on average.
  const rank = new Array<number>(layerOf.length).fill(0);
  const number = (row: number[]): void => row.forEach((node, i) => (rank[node] = i));
  rows.forEach(number);
  const arrange = (row: number[], near: number[][]): void => {
    const key = new Map(
      row.map((node) => [
        node,
        mean(
          near[node].map((other) => rank[other]),
          rank[node],
        ),
      ]),
    );
    row.sort((a, b) => (key.get(a) as number) - (key.get(b) as number) || rank[a] - rank[b]);
    number(row);
  };
  for (let i = 0; i < SWEEPS; i++) {
    for (let l = 1; l < layers; l++) arrange(rows[l], above);
    for (let l = layers - 2; l >= 0; l--) arrange(rows[l], below);
  }

  const x = new Array<number>(layerOf.length).fill(0);
  const put = (row: number[], near: number[][]): void => {
    const apart = row.map((node, i) => (i === 0 ? 0 : (wide[row[i - 1]] + wide[node]) / 2 + GAP));
    const wanted = row.map((node) =>
      mean(
        near[node].map((other) => x[other]),
        x[node],
      ),
    );
    separate(wanted, apart).forEach((at, i) => (x[row[i]] = at));
  };
  const none: number[][] = layerOf.map(() => []);
  rows.forEach((row) => put(row, none));
  for (let i = 0; i < SWEEPS; i++) {
    for (let l = 1; l < layers; l++) put(rows[l], above);
    for (let l = layers - 2; l >= 0; l--) put(rows[l], below);
  }
  return {
    x: x.slice(0, n),
    layer,
    layers,
    left: Math.min(0, ...x.map((at, i) => at - wide[i] / 2)),
    right: Math.max(0, ...x.map((at, i) => at + wide[i] / 2)),
    // An edge that was turned round is drawn from where it begins.
    bends: chains.map((chain, i) => {
      const xs = chain.map((node) => x[node]);
      return edges[i][0] === given[i][0] ? xs : xs.reverse();
    }),
  };
}
