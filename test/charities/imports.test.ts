import { testWithDatabase } from "../support/database.ts";
import { CHARITY_RECORD, contentOf, lineOf, stageCatalogue } from "./catalogueScene.ts";
import { findCharityRecord, upsertCharities } from "../../modules/charities/catalogue.sql.ts";
import { freshEin } from "../support/factories.ts";
import { runBehindLocks } from "../support/lockWaits.ts";

const test = testWithDatabase().serial;

const recordsOf = (name: string, eins: readonly string[]) =>
  eins.map((ein) => ({ ...CHARITY_RECORD, ein, name }));

test("an older extract that waits for a newer one leaves its charities unchanged", async (t) => {
  const { db } = t.context;
  const [known, added] = [freshEin(), freshEin()];
  const write = (name: string, extractedOn: string, eins: readonly string[]) =>
    db.transaction((transaction) =>
      upsertCharities(transaction, recordsOf(name, eins), extractedOn),
    );
  await write("MARCH", "2026-03-09", [known]);

  await runBehindLocks(
    db,
    (transaction) => upsertCharities(transaction, recordsOf("MAY", [known, added]), "2026-05-11"),
    () => write("APRIL", "2026-04-13", [known, added]),
  );

  for (const ein of [known, added]) {
    t.like(await findCharityRecord(db, ein), { name: "MAY", extractedOn: "2026-05-11" });
  }
});

test("after a complete extract, charities that it lacks are not eligible until an extract lists them again", async (t) => {
  const { run, write, load, read } = await stageCatalogue(t);
  const [kept, gone] = [freshEin(), freshEin()];
  const line = lineOf(kept, "KEPT CHARITY");
  const april = await write("april.csv", contentOf(line, lineOf(gone, "DISSOLVED CHARITY")));
  const may = await write("may.csv", contentOf(line));
  const bad = await write("bad.csv", contentOf(line, "12345,"));
  await load(april);
  t.is((await run("import", bad, "--extracted", "2026-05-11", "--complete")).exitCode, 1);
  t.like(await read(gone), { eligible: true }, "a skipped line may be that of a charity");

  const { stderr } = await load(may, "--extracted", "2026-05-11", "--complete");
  t.regex(stderr, /^[\d,]+ charities are missing from the extract and no longer eligible/u);
  t.like(await read(kept), { eligible: true });
  t.like(await read(gone), { eligible: false, listed: false });
  t.regex((await run("search", gone)).stdout, /eligible +no/u);

  const june = await load(april, "--extracted", "2026-06-08");
  t.deepEqual(june.counts, [{ file: "april.csv", read: 2, written: 2, bad: 0 }]);
  t.like(await read(gone), { eligible: true, extractedOn: "2026-06-08" });
});
