import { createBulkPool, readRecordingRate, restMs } from "../../db/createBulkPool.ts";
import { sql } from "../../db/sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { importHistory } from "../../modules/history/importHistory.ts";
import type { ImportLine } from "../../modules/history/importLine.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { importedTree } from "../history/importLine.ts";

const test = testWithDatabase();

// oxlint-disable-next-line typescript/require-await -- the import reads an asynchronous stream.
async function* oneLine(): AsyncGenerator<ImportLine> {
  yield { file: "history", number: 1, text: "", record: importedTree };
}

test.serial("registrations of clients count as recording, imported ones do not", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const { kinds } = await importHistory(
    { db, clock: systemClock, actor: SERVICE },
    { accountId, mode: "live", isStore: false },
    oneLine(),
    { purpose: "import", ordersPlanting: false, charityProvider: "catalogue" },
    { onRejected: () => undefined, onProgress: () => undefined },
  );
  t.is(kinds.tree.new, 1);
  t.is(await readRecordingRate(db), 0);

  const writer = createRegistrationWriter({ db, clock: systemClock });
  // A batch of registrations is one usage fact. The machine may be busy, so facts of the next minute count as well.
  await Promise.all([1, 2, 3, 4].map(() => writer.register(registrationOf(accountId))));
  await db.query(sql.typeAlias("void")`UPDATE usage_fact SET second = second + 60`);
  t.is(await readRecordingRate(db), 2);
});

for (const [recordsPerSecond, stepMs, rest] of [
  [0, 10, 0],
  [100, 10, 0],
  [250, 10, 15],
  [500, 10, 40],
  [5000, 10, 40],
  // A step that could not be split delays other bulk work for a second at most.
  [5000, 60_000, 1000],
] as const) {
  test(`${rest} ms of rest follow ${stepMs} ms beside ${recordsPerSecond} records a second`, (t) => {
    t.is(restMs(stepMs, recordsPerSecond), rest);
  });
}

test.serial("while clients record, the rests of two processes follow each other", async (t) => {
  const { db, owner } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const writer = createRegistrationWriter({ db, clock: systemClock });
  await Promise.all(Array.from({ length: 300 }, () => writer.register(registrationOf(accountId))));
  await db.query(sql.typeAlias("void")`UPDATE usage_fact SET second = second + 60`);
  const order: string[] = [];
  const resting = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  const first = createBulkPool(db, db, () => {
    order.push("first rests");
    resting.resolve();
    return end.promise;
  });
  const second = createBulkPool(owner, owner, () => {
    order.push("second rests");
    return Promise.resolve();
  });

  const firstStep = first.query(sql.typeAlias("void")`SELECT`);
  await resting.promise;
  await t.throwsAsync(first.query(sql.typeAlias("void")`SELECT nothing`));
  const secondStepped = Promise.withResolvers<void>();
  const secondStep = second.transaction(async (transaction) => {
    await transaction.query(sql.typeAlias("void")`SELECT`);
    secondStepped.resolve();
    return "second";
  });
  await secondStepped.promise;
  order.push("first ends");
  end.resolve();

  await firstStep;
  t.is(await secondStep, "second");
  t.deepEqual(order, ["first rests", "first ends", "second rests"]);
});
