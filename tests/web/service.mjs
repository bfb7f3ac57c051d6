// `prony serve` with its page, tokens for it, and sessions that come and go.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import readline from "node:readline";
import { fileURLToPath } from "node:url";
import { BUILD, PATIENCE_MS, folder, prony, start } from "./browser.mjs";

const running = new Set();

// Ends whatever a test that failed left behind.
export function stopAll() {
  for (const process of running) process.kill("SIGKILL");
}

function kept(process) {
  running.add(process);
  process.ended = new Promise((done) =>
    process.on("exit", (status, signal) => {
      running.delete(process);
      done({ status, signal });
    }),
  );
  return process;
}

// A certificate for this machine that signs itself.
function certificate(place) {
  const [cert, key] = ["cert.pem", "key.pem"].map((name) => path.join(place, name));
  const done = spawnSync("openssl", [
    "req",
    "-x509",
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:P-256",
    "-nodes",
    "-keyout",
    key,
    "-out",
    cert,
    "-days",
    "2",
    "-subj",
    "/CN=localhost",
    "-addext",
    "subjectAltName=DNS:localhost,IP:127.0.0.1",
  ]);
  assert.equal(done.status, 0, String(done.stderr));
  return { cert, key };
}

export class Service {
  // With `tls` it has users and tokens; without, it serves the user who runs it. `config` is YAML.
  static async start(name, { tls = false, config = "" } = {}) {
    const service = new Service();
    service.folder = path.join(folder, name);
    mkdirSync(service.folder);
    service.state = path.join(service.folder, "state");
    service.options = ["--state", service.state];
    if (config) {
      writeFileSync(path.join(service.folder, "serve.yml"), config);
      service.options.push("--config", path.join(service.folder, "serve.yml"));
    }
    if (tls) {
      const { cert, key } = certificate(service.folder);
      service.ca = cert;
      service.options.push("--tls-cert", cert, "--tls-key", key);
    }
    await service.run("127.0.0.1:0", "127.0.0.1:0");
    return service;
  }

  // Starts it, and waits until it has said where it is.
  async run(listen, http) {
    this.process = kept(start(["serve", ...this.options, "--listen", listen, "--http", http]));
    this.said = "";
    this.process.stderr.on("data", (text) => (this.said += text));
    let text = "";
    await new Promise((done, fail) => {
      this.process.stdout.on("data", (piece) => {
        text += piece;
        this.address = /serves on (\S+)/.exec(text)?.[1];
        this.page = /(https?:\/\/\S+\/)/.exec(text)?.[1];
        if (this.address && this.page) done();
      });
      void this.process.ended.then(() => fail(new Error(`it ended: ${this.said}`)));
    });
  }

  async stop(signal = "SIGTERM") {
    this.process.kill(signal);
    const ended = await this.process.ended;
    if (signal === "SIGTERM") assert.deepEqual(ended, { status: 0, signal: null }, this.said);
  }

  // Where it was before.
  restart() {
    return this.run(this.address, new URL(this.page).host);
  }

  token(user, ...options) {
    return prony("token", "add", user, ...options, "--state", this.state)
      .trim()
      .split(/\s+/)
      .pop();
  }

  // A process that holds sessions, which ends with the test.
  async sessions(use) {
    const python = path.join(BUILD, "venv/bin/python");
    const script = path.join(path.dirname(fileURLToPath(import.meta.url)), "sessions.py");
    const process = kept(
      spawn(python, [script, this.address, ...(this.ca ? [this.ca] : [])], { stdio: ["pipe", "pipe", "inherit"] }),
    );
    const answers = readline.createInterface({ input: process.stdout })[Symbol.asyncIterator]();
    try {
      await use(async (order) => {
        process.stdin.write(`${JSON.stringify(order)}\n`);
        const { value, done } = await answers.next();
        assert.ok(!done, "the process with the sessions ended");
        assert.deepEqual(JSON.parse(value), {}, JSON.stringify(order));
      });
    } finally {
      process.stdin.end();
      await process.ended;
    }
  }
}

// The first value that isn't false, null or undefined; asked again until it comes.
export async function eventually(what, ask) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const value = await ask();
    if (value) return value;
    assert.ok(Date.now() < end, `${what}: not within ${PATIENCE_MS / 1000} s`);
    await new Promise((done) => setTimeout(done, 50));
  }
}
