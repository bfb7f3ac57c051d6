// The page's source is type-checked; esbuild only drops the types.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const modules = path.resolve(process.env.PRONY_BUILD ?? path.join(root, "build"), "node/node_modules");

test("web/ has no errors of types", () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), "prony-types-"));
  cpSync(path.join(root, "web"), folder, { recursive: true });
  symlinkSync(modules, path.join(folder, "node_modules"));
  const done = spawnSync(process.execPath, [path.join(modules, "typescript/bin/tsc"), "-p", folder], { encoding: "utf8" });
  rmSync(folder, { recursive: true });
  assert.equal(done.stdout, "");
  assert.equal(done.status, 0);
});
