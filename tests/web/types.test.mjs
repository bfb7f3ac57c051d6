// The page's source is type-checked, with the types that the build made of the reports' schemas; esbuild only
// drops the types.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const build = path.resolve(process.env.PRONY_BUILD ?? path.join(root, "build"));

test("web/ has no errors of types", () => {
  const compiler = path.join(build, "node/node_modules/typescript/bin/tsc");
  const done = spawnSync(process.execPath, [compiler, "-p", path.join(build, "generated/tsconfig.json")], {
    encoding: "utf8",
  });
  assert.equal(done.stdout, "");
  assert.equal(done.status, 0);
});
