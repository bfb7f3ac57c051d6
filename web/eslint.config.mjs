// What the pages and their tests are looked at for: mistakes, not layout, which is prettier's.
//   eslint -c web/eslint.config.mjs web tests/web
// Modules are in the build folder, where the eslint that runs is.
import { createRequire } from "node:module";

const require = createRequire(process.argv[1]);
const typescript = require("typescript-eslint");

export default [
  require("@eslint/js").configs.recommended,
  ...typescript.configs.recommended,
  {
    rules: {
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_" }],
      eqeqeq: ["error", "always", { null: "ignore" }],
      "no-undef": "off", // the compiler knows
    },
  },
];
