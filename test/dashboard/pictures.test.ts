import test from "ava";
import { DomainError } from "../../runtime/errors.rules.ts";
import { createRasterizer } from "../../modules/dashboard/createRasterizer.ts";
import { DRAWABLE, rasterize } from "../../modules/dashboard/rasterize.ts";

const SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>';

// Serial, because the tests of the font block the thread for longer than a picture may take on a busy machine.
// Not as if the database could not be reached, which is logged as an error that operators must act on.
test.serial("pictures beyond those that may wait are rejected as too many", async (t) => {
  const draw = createRasterizer();
  const waiting = Array.from({ length: 20 }, () => draw(SVG));

  await t.throwsAsync(draw(SVG), {
    instanceOf: DomainError,
    code: "queue_full",
    message: "too many pictures are being drawn; retry later",
  });

  const pictures = await Promise.all(waiting);
  t.true(pictures.every((picture) => picture.subarray(1, 4).toString() === "PNG"));
});

test.serial("a picture that takes too long is rejected in the same way", async (t) => {
  const hurried = createRasterizer({ deadlineMs: 1 });

  await t.throwsAsync(hurried(SVG), {
    instanceOf: DomainError,
    code: "queue_full",
    message: "the picture takes too long; retry later",
  });
});

const draw = async (character: string): Promise<Buffer> => {
  const { png } = await rasterize(
    `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><text x="5" y="30" font-size="24">&#${character.codePointAt(0)};</text></svg>`,
  );
  return Buffer.from(png);
};

/** Letters and signs of Europe and of what is written in its scripts are below. */
const LAST_CODE_POINT = 0x21ff;

test("the font has every character of the names that it draws", async (t) => {
  const box = await draw("森");
  const missing: string[] = [];
  for (let point = 0x20; point <= LAST_CODE_POINT; point += 1) {
    const character = String.fromCodePoint(point);
    if (DRAWABLE.test(character) && (await draw(character)).equals(box)) {
      missing.push(point.toString(16));
    }
  }
  t.deepEqual(missing, []);
});

for (const name of [
  "Өвөрхангай",
  "Қазақ ұлттық ғылымы",
  "Җәлил үзәге",
  "Ελλάδα",
  "Tiếng Việt",
  "Łódź & Söhne®",
]) {
  test(`the font draws ${name}`, async (t) => {
    t.true(DRAWABLE.test(name));
    const box = await draw("森");
    for (const character of name) {
      t.false((await draw(character)).equals(box), character);
    }
  });
}

test("names that the font cannot draw are not drawable", (t) => {
  for (const name of ["Ἀθῆναι", "森林", "Wald 🌳", "ᲂ", "Ԁ"]) {
    t.false(DRAWABLE.test(name), name);
  }
});
