// One page of every kind, each with the JSON that it must agree with.
import { copyFileSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { ROOT, data, folder, prony } from "./browser.mjs";

// A reported profile: its page, and its JSON.
function profile(name) {
  return () => {
    prony("report", data(`${name}.json`), "--format", "html", "-o", `${name}.html`);
    return JSON.parse(prony("report", data(`${name}.json`), "--format", "json"));
  };
}

function explore(name, ...argv) {
  return () => {
    prony("explore", ...argv, "--format", "html", "-o", `${name}.html`);
    return JSON.parse(prony("explore", ...argv, "--format", "json"));
  };
}

function pipelineFiles() {
  const example = (name) => path.join(ROOT, "examples/pipeline", name);
  prony("models", "-i", example("board.yml"), "-o", "models.yml");
  prony("device-types", "board", "-i", example("board.yml"), "-o", "types.yml", "-dtm", "512", "-dtb", "1000");
  prony(
    "device-types",
    "workstation",
    "-i",
    example("workstation.yml"),
    "-o",
    "types.yml",
    "-dtm",
    "16384",
    "-dtb",
    "1000",
  );
  return ["-m", "vit-two-blocks", "-M", "models.yml", "-T", "types.yml", "-D", example("devices.yml")];
}

function schedule() {
  const argv = ["schedule", ...pipelineFiles()];
  prony(...argv, "--format", "html", "--output", "schedule.html");
  return JSON.parse(prony(...argv, "--format", "json"));
}

function simulated() {
  made("layers");
  prony("models", "-i", "results.yml", "-o", "small-models.yml");
  prony("device-types", "desk", "-i", "results.yml", "-o", "small-types.yml", "-dtm", "512", "-dtb", "1000");
  writeFileSync(path.join(folder, "desks.yml"), "desk: [desk-0, desk-1]\n");
  prony(
    "schedule",
    "-m",
    "small",
    "-b",
    "4",
    "-M",
    "small-models.yml",
    "-T",
    "small-types.yml",
    "-D",
    "desks.yml",
    "--simulate",
    "small.onnx",
    "--launches",
    "1",
    "--duration",
    "0.1",
    "--format",
    "html",
    "--output",
    "simulated.html",
  );
  return null;
}

function layers() {
  prony("synth", "mlp", "--layers", "3", "--hidden", "32", "--batch", "dynamic", "-o", "small.onnx");
  prony(
    "layers",
    "small.onnx",
    "-b",
    "4",
    "-o",
    "results.yml",
    "--launches",
    "1",
    "--iterations",
    "5",
    "--format",
    "html",
    "--output",
    "layers.html",
  );
  return null;
}

function measured() {
  made("layers");
  prony(
    "profile",
    "small.onnx",
    "-b",
    "onnxrt-cpu[threads=1]",
    "--ops",
    "--launches",
    "2",
    "--repeats",
    "40",
    "--format",
    "html",
    "-o",
    "measured.html",
  );
  return null;
}

function list() {
  made("layers");
  prony("layers", "small.onnx", "--list", "--format", "html", "--output", "list.html");
  return JSON.parse(prony("layers", "small.onnx", "--list", "--format", "json"));
}

function comparison() {
  const files = [data("compare-before.json"), data("compare-after.json")];
  prony("report", ...files, "--format", "html", "-o", "comparison.html");
  return JSON.parse(prony("report", ...files, "--format", "json"));
}

function operators() {
  const before = JSON.parse(readFileSync(data("profile-ops.json"), "utf8"));
  const after = structuredClone(before);
  after.results[0].ops.operators.forEach((o, i) => (o.mean_ns += 1000 * (i + 1)));
  writeFileSync(path.join(folder, "ops-after.json"), JSON.stringify(after));
  prony("report", data("profile-ops.json"), "ops-after.json", "--format", "html", "-o", "operators.html");
  return { before, after };
}

function history() {
  copyFileSync(data("history-1.db"), path.join(folder, "history.db"));
  const argv = ["history", "show", "resnet50.onnx", "--db", "history.db"];
  prony(...argv, "--format", "html", "-o", "history.html");
  return JSON.parse(prony(...argv, "--format", "json"));
}

const example = (name) => path.join(ROOT, `examples/traces/${name}.json.gz`);
const trace = (name) => data(`trace/${name}.json`);

// Twelve runs of two nodes; those of the second trace take longer, and have a third one.
function tracesApart() {
  const event = (cat, name, ts, dur, args = {}) => ({ cat, pid: 1, tid: 1, dur, ts, ph: "X", name, args });
  const node = (name, op, ts, dur) =>
    event("Node", `${name}_kernel_time`, ts, dur, { op_name: op, provider: "CPUExecutionProvider" });
  const write = (file, conv, extra) => {
    const events = [];
    for (let run = 0; run < 12; run++) {
      const at = 10000 * (run + 1);
      const long = conv + (run % 3);
      events.push(node("/conv", "Conv", at + 2, long), node("/relu", "Relu", at + 4 + long, 30));
      if (extra) events.push(node("/add", "Add", at + 36 + long, extra));
      events.push(event("Session", "model_run", at, long + 40 + extra));
    }
    writeFileSync(path.join(folder, file), JSON.stringify(events));
    return file;
  };
  return explore("traces-apart", write("first.json", 100, 0), "--compare", write("second.json", 150, 20))();
}

const makers = {
  "profile-several": profile("profile-several"),
  "profile-single": profile("profile-single"),
  "profile-sweep": profile("profile-sweep"),
  "profile-load": profile("profile-load"),
  "profile-ops": profile("profile-ops"),
  "profile-roofs": profile("profile-roofs"),
  "profile-recorded-program": profile("profile-recorded-program"),
  "profile-recorded-empty": profile("profile-recorded-empty"),
  "profile-recorded-many": profile("profile-recorded-many"),
  comparison,
  operators,
  history,
  trace: explore("trace", trace("parallel")),
  gpu: explore("gpu", trace("gpu"), "--mapping", "--dimension-sensitive"),
  memory: explore("memory", example("before")),
  traces: explore("traces", trace("parallel"), "--compare", trace("gpu")),
  "traces-apart": tracesApart,
  "traces-memory": explore("traces-memory", example("memory"), "--compare", example("before"), "-c", "100"),
  schedule,
  layers,
  list,
  simulated,
  measured,
};

export const names = Object.keys(makers);
const results = new Map();

// Makes NAME.html, once, and returns the JSON that it must agree with, where that can be had.
export function made(name) {
  if (!results.has(name)) results.set(name, makers[name]());
  return results.get(name);
}
