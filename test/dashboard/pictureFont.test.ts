import test from "ava";
import { DRAWABLE, rasterize } from "../../services/dashboard/pictures/rasterize.ts";

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
