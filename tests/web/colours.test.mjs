// Colours of the pictures are told apart by people who lack one of the three kinds of cones, and what is
// written on them is read.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const style = readFileSync(
  path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../web/src/style.css"),
  "utf8",
);
const [light, dark] = [/:root \{(.*?)\}/s, /:root\[data-theme="dark"\] \{(.*?)\}/s].map((rule) => rule.exec(style)[1]);

// What is seen of linear red, green and blue: Machado, Oliveira and Fernandes, 2009, full severity.
const SEEN = {
  everything: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  "no red": [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  "no green": [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  "no blue": [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};

const colour = (theme, name) =>
  new RegExp(`--${name}: #(\\w{6})`)
    .exec(theme)[1]
    .match(/../g)
    .map((hex) => parseInt(hex, 16) / 255);
const series = (theme) => Array.from({ length: 8 }, (_, i) => colour(theme, `series-${i + 1}`));
const linear = (rgb) => rgb.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
const times = (matrix, v) => matrix.map((row) => row.reduce((sum, m, i) => sum + m * v[i], 0));
const luminance = (rgb) => times([[0.2126, 0.7152, 0.0722]], linear(rgb))[0];

// CIELAB, in which a distance is about as large as it looks.
function lab(light) {
  const clipped = light.map((c) => Math.min(1, Math.max(0, c)));
  const xyz = times(
    [
      [0.4124, 0.3576, 0.1805],
      [0.2126, 0.7152, 0.0722],
      [0.0193, 0.1192, 0.9505],
    ],
    clipped,
  );
  const [x, y, z] = xyz
    .map((v, i) => v / [0.95047, 1, 1.08883][i])
    .map((v) => (v > 0.008856 ? Math.cbrt(v) : 7.787 * v + 16 / 116));
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

const contrast = (a, b) => {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
};

for (const [name, theme] of Object.entries({ light, dark })) {
  test(`colours of the ${name} theme are told apart`, () => {
    for (const [kind, matrix] of Object.entries(SEEN)) {
      const seen = series(theme).map((rgb) => lab(times(matrix, linear(rgb))));
      seen.forEach((a, i) =>
        seen
          .slice(0, i)
          .forEach((b, k) =>
            assert.ok(Math.hypot(...a.map((v, j) => v - b[j])) > 14, `${kind}: series ${k + 1} and ${i + 1}`),
          ),
      );
    }
  });

  test(`what is written on colours of the ${name} theme is read`, () => {
    const [ground, ink] = [colour(theme, "surface"), colour(theme, "ink")];
    series(theme).forEach((rgb, i) => {
      const bar = rgb.map((c, k) => 0.55 * c + 0.45 * ground[k]);
      assert.ok(contrast(bar, ink) >= 4.5, `series ${i + 1}: ${contrast(bar, ink)}`);
      assert.ok(contrast(rgb, ground) >= 2.2, `series ${i + 1} on the ground: ${contrast(rgb, ground)}`);
    });
  });
}
