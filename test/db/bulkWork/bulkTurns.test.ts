import { readLatestRecords, reserveBulkTurn } from "../../../db/bulkWork/bulkTurns.ts";
import { sql } from "../../../db/sql.ts";
import { systemClock } from "../../../domain/clock.ts";
import { importHistory } from "../../../services/history/importHistory.ts";
import type { ImportLine } from "../../../services/history/importLine.ts";
import { createRegistrationWriter } from "../../../services/registrations/createRegistrationWriter.ts";
import { SERVICE } from "../../../domain/accounts/audit.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { importedTree } from "../../history/importedTree.ts";

const test = testWithDatabase();

// oxlint-disable-next-line typescript/require-await -- the import reads an asynchronous stream.
async function* oneLine(): AsyncGenerator<ImportLine> {
  yield { file: "history", number: 1, text: "", record: importedTree };
}

test.serial("nothing is young in an empty database", async (t) => {
  const { ageMs, ...ids } = await readLatestRecords(t.context.db);
  t.deepEqual(ids, { factId: null, entryId: null, eventId: null });
  t.true(ageMs > 1e9);
});

test.serial("a registration is a new record, and young; an imported one is neither", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const before = await readLatestRecords(db);
  const { kinds } = await importHistory(
    { db, clock: systemClock, actor: SERVICE },
    { accountId, mode: "live" },
    oneLine(),
    { isDryRun: false, ordersPlanting: false, charityProvider: "catalogue", isStore: false },
    { onRejected: () => undefined, onProgress: () => undefined },
  );
  t.is(kinds.tree.new, 1);
  t.is((await readLatestRecords(db)).factId, before.factId);

  const writer = createRegistrationWriter({ db, clock: systemClock });
  await writer.register(registrationOf(accountId));
  const after = await readLatestRecords(db);
  t.not(after.factId, before.factId);
  // A usage fact knows its second. The rest is for a busy machine.
  t.true(after.ageMs < 60_000, String(after.ageMs));
});

test.serial("turns follow each other, whoever reserves them", async (t) => {
  const { db, owner } = t.context;
  const first = await reserveBulkTurn(db, 9000);
  const second = await reserveBulkTurn(owner, 100);
  const third = await reserveBulkTurn(db, 100);
  t.is(first.waitMs, 0);
  t.true(second.waitMs > 0 && second.waitMs <= 9000, String(second.waitMs));
  t.true(third.waitMs > 0 && third.waitMs <= 9100, String(third.waitMs));
});

test.serial(
  "a turn far in the future, from before the clock was set back, is ignored",
  async (t) => {
    const { db } = t.context;
    await db.query(sql.typeAlias("void")`
    UPDATE bulk_turn SET ends_at = now() + interval '1 hour'
  `);
    t.is((await reserveBulkTurn(db, 10)).waitMs, 0);
  },
);

test.serial("a turn that ended long ago leaves no wait", async (t) => {
  const { db } = t.context;
  await db.query(sql.typeAlias("void")`
    UPDATE bulk_turn SET ends_at = now() - interval '1 hour'
  `);
  t.is((await reserveBulkTurn(db, 10)).waitMs, 0);
});
