import test from "ava";
import {
  BACKGROUNDS,
  brandColorsOf,
  contrastOf,
  LEAST_CONTRAST,
  listColorAdjustments,
  parseColor,
} from "../../domain/dashboard/brandColor.ts";

test("black on white has a contrast of 21, and a color none to itself", (t) => {
  t.is(contrastOf("#000000", "#ffffff"), 21);
  t.is(contrastOf("#abcdef", "#abcdef"), 1);
  // A value that WCAG's own examples give.
  t.is(contrastOf("#767676", "#ffffff").toFixed(2), "4.54");
});

test("every color is legible on every background of both modes", (t) => {
  const levels = [0, 64, 128, 192, 255].map((level) => level.toString(16).padStart(2, "0"));
  for (const red of levels) {
    for (const green of levels) {
      for (const blue of levels) {
        const color = `#${red}${green}${blue}`;
        const used = brandColorsOf(color);
        for (const appearance of ["light", "dark"] as const) {
          for (const background of Object.values(BACKGROUNDS[appearance])) {
            t.true(contrastOf(used[appearance], background) >= LEAST_CONTRAST, color);
          }
        }
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
  const [adjustment] = listColorAdjustments("#000000");
  t.like(adjustment, { appearance: "dark" });
  t.is(adjustment?.used, brandColorsOf("#000000").dark);
});

test("colors are read in both notations, and nothing else is a color", (t) => {
  t.is(parseColor("#0A7"), "#00aa77");
  t.is(parseColor("#00AA77"), "#00aa77");
  for (const given of ["red", "#12", "#1234", "#12345g", "#1c6b47;}body{display:none}", ""]) {
    t.is(parseColor(given), null, given);
  }
});
