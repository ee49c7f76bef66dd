import { testWithDatabase } from "../support/database.ts";
import { freshEin } from "../support/factories.ts";
import { HEADER, lineOf, stageCatalogue } from "./catalogueScene.ts";

// In a database of its own, because a complete extract removes the charities of all other tests.
const test = testWithDatabase();

test("after a complete extract, charities that it lacks are not eligible until an extract lists them again", async (t) => {
  const { run, write, load, read } = await stageCatalogue(t);
  const [kept, gone] = [freshEin(), freshEin()];
  const both = [HEADER, lineOf(kept, "KEPT CHARITY"), lineOf(gone, "DISSOLVED CHARITY")].join("\n");
  const april = await write("april.csv", both);
  const may = await write("may.csv", [HEADER, lineOf(kept, "KEPT CHARITY")].join("\n"));
  const bad = await write("bad.csv", [HEADER, lineOf(kept, "KEPT CHARITY"), "12345,"].join("\n"));
  await load(april);
  t.is((await run("import", bad, "--extracted", "2026-05-11", "--complete")).exitCode, 1);
  t.like(await read(gone), { eligible: true }, "a skipped line may be that of a charity");

  const { stderr } = await load(may, "--extracted", "2026-05-11", "--complete");
  t.regex(stderr, /^\d+ charities are missing from the extract and no longer eligible/u);
  t.like(await read(kept), { eligible: true });
  t.like(await read(gone), { eligible: false, listed: false });
  t.regex((await run("search", gone)).stderr, /No charities found/u);

  const june = await load(april, "--extracted", "2026-06-08");
  t.deepEqual(june.counts, [
    { file: "april.csv", added: 0, changed: 1, same: 1, older: 0, bad: 0 },
  ]);
  t.like(await read(gone), { eligible: true, extractedOn: "2026-06-08" });
});
