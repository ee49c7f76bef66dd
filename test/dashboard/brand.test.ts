import { readFileSync } from "node:fs";
import test from "ava";
import {
  BACKGROUNDS,
  brandColorsOf,
  contrastOf,
  LEAST_CONTRAST,
  listColorAdjustments,
  parseColor,
} from "../../modules/accounts/brandColor.rules.ts";
import { readLogo } from "../../modules/accounts/readLogo.ts";

/*
 * The colors and logos of organizations.
 */

test("contrasts are those of WCAG", (t) => {
  t.is(contrastOf("#000000", "#ffffff"), 21);
  t.is(contrastOf("#abcdef", "#abcdef"), 1);
  // A value that WCAG's own examples give.
  t.is(contrastOf("#767676", "#ffffff").toFixed(2), "4.54");
});

test("every color is legible on every background of both modes", (t) => {
  const levels = ["00", "40", "80", "c0", "ff"];
  const colors = levels.flatMap((red) =>
    levels.flatMap((green) => levels.map((blue) => `#${red}${green}${blue}`)),
  );
  for (const color of colors) {
    const used = brandColorsOf(color);
    for (const appearance of ["light", "dark"] as const) {
      for (const background of Object.values(BACKGROUNDS[appearance])) {
        t.true(contrastOf(used[appearance], background) >= LEAST_CONTRAST, color);
      }
    }
  }
});

test("a legible color stays as it is, and others are reported with what replaces them", (t) => {
  t.is(brandColorsOf("#1c6b47").light, "#1c6b47");
  t.deepEqual(
    listColorAdjustments("#ffd400").map(({ appearance }) => appearance),
    ["light"],
  );
  t.like(listColorAdjustments("#000000"), [
    { appearance: "dark", used: brandColorsOf("#000000").dark },
  ]);
});

test("colors are read in both notations, and nothing else is a color", (t) => {
  t.is(parseColor("#0A7"), "#00aa77");
  t.is(parseColor("#00AA77"), "#00aa77");
  for (const given of ["red", "#12", "#1234", "#12345g", "#1c6b47;}body{display:none}", ""]) {
    t.is(parseColor(given), null, given);
  }
});

const uint16 = (value: number): string => String.fromCodePoint(value >> 8, value % 256);
const latin1 = (...parts: readonly string[]): Buffer => Buffer.from(parts.join(""), "latin1");

/** Pictures with these sides and with what a decoder would read left out. */
const pictures = {
  png: (width: number, height: number) =>
    latin1(
      "\u0089PNG\r\n\u001A\n\0\0\0\rIHDR",
      `\0\0${uint16(width)}\0\0${uint16(height)}`,
      "\0\0\0\0IEND\u00AEB`\u0082",
    ),
  jpeg: (width: number, height: number) =>
    latin1(
      // A comment, a fill byte, and the frame.
      "\u00FF\u00D8\u00FF\u00FE\0\u0010comment longer",
      `\u00FF\u00FF\u00C2\0\u000B\b${uint16(height)}${uint16(width)}\u0001\0\0\0`,
      "\u00FF\u00D9",
    ),
  "lossy webp": (width: number, height: number) => {
    const file = latin1("RIFF\u001C\0\0\0WEBPVP8 ", "\0".repeat(20));
    file.writeUInt16LE(width, 26);
    file.writeUInt16LE(height, 28);
    return file;
  },
  "lossless webp": (width: number, height: number) => {
    const file = latin1("RIFF\u001C\0\0\0WEBPVP8L", "\0".repeat(20));
    file.writeUInt32LE((height - 1) * 0x40_00 + width - 1, 21);
    return file;
  },
  "extended webp": (width: number, height: number) => {
    const file = latin1("RIFF\u001C\0\0\0WEBPVP8X", "\0".repeat(20));
    file.writeUIntLE(width - 1, 24, 3);
    file.writeUIntLE(height - 1, 27, 3);
    return file;
  },
} as const;

for (const [name, draw] of Object.entries(pictures)) {
  test(`a ${name} logo is recognized by its content, with its size`, (t) => {
    const type = name.split(" ").at(-1);
    const file = draw(300, 100);
    t.like(readLogo(file), { type, width: 300, height: 100, file });
    t.throws(() => readLogo(draw(4000, 4000)), { message: /at most 4000000 pixels/u });
    t.throws(() => readLogo(draw(300, 31)), { message: /at least 32/u });
    const damaged = /is damaged, or has other data after the picture/u;
    t.throws(() => readLogo(file.subarray(0, -1)), { message: damaged });
    t.throws(() => readLogo(latin1(file.toString("latin1"), "<script>")), { message: damaged });
  });
}

test("a real picture is a logo", (t) => {
  const file = readFileSync(new URL("../../embedded/demo/logo.png", import.meta.url));
  t.like(readLogo(file), { type: "png", width: file.readUInt32BE(16) });
});

test("other files and large ones are rejected as logos", (t) => {
  for (const text of [
    "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
    "GIF89a",
    "<!doctype html><script>",
    "\u0089PNG\r\n\u001A\n",
    "\u00FF\u00D8\u00FF",
    "",
  ]) {
    t.throws(() => readLogo(latin1(text)), {
      name: "DomainError",
      message: /must be a PNG, JPEG or WebP picture/u,
    });
  }
  t.throws(() => readLogo(Buffer.alloc(512 * 1024 + 1)), { message: /at most 512 KiB/u });
});
