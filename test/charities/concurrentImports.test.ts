import { findCharityRecord } from "../../modules/charities/catalogue.sql.ts";
import { upsertCharities } from "../../modules/charities/charityImports.sql.ts";
import { testWithDatabase } from "../support/database.ts";
import { freshEin } from "../support/factories.ts";
import { runBehindLocks } from "../support/lockWaits.ts";
import { CHARITY_RECORD } from "./charityRecord.ts";

const test = testWithDatabase();

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
