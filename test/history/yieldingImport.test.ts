import { readTotals } from "../../db/registrations/totals.ts";
import { SERVICE } from "../../domain/accounts/audit.ts";
import { systemClock } from "../../domain/clock.ts";
import { importHistory } from "../../services/history/importHistory.ts";
import type { ImportLine } from "../../services/history/importLine.ts";
import { isLedgerEqual, verifyImport } from "../../services/history/verifyImport.ts";
import { createYieldingPace } from "../support/bulkPaces.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { importedTree } from "./importedTree.ts";

const test = testWithDatabase();

const LINES = 250;

// oxlint-disable-next-line typescript/require-await -- the import reads an asynchronous stream.
async function* readLines(): AsyncGenerator<ImportLine> {
  for (let number = 1; number <= LINES; number += 1) {
    const record = { ...importedTree, importedId: `old-${number}`, count: number };
    yield { file: "history", number, text: "", record };
  }
}

test("an import that yields writes small batches, and is as complete as any other", async (t) => {
  const { db } = t.context;
  const { id: accountId } = await createTestOrganization(db);
  const owner = { accountId, mode: "live" } as const;
  const pace = createYieldingPace();
  const seen: number[] = [];
  const summary = await importHistory(
    { db, clock: systemClock, actor: SERVICE, pace },
    owner,
    readLines(),
    { isDryRun: false, ordersPlanting: false, charityProvider: "catalogue", isStore: false },
    { onRejected: () => undefined, onProgress: ({ lines }) => seen.push(lines) },
  );

  t.like(summary, { lines: LINES, bad: 0, kinds: { tree: { new: LINES, conflict: 0 } } });
  t.deepEqual(seen, [100, 200, 250]);
  // Each half of a batch, at least, is a step of its own.
  t.true(pace.stepCount() >= 6, String(pace.stepCount()));
  t.is(
    (await readTotals(db, { ...owner, kind: "tree" }, systemClock.now())).all,
    (LINES * (LINES + 1)) / 2,
  );

  const verification = await verifyImport(
    { db, clock: systemClock, pace },
    owner,
    readLines(),
    () => undefined,
  );
  t.like(verification, { lines: LINES, bad: 0, repeated: 0, differences: [], counters: [] });
  t.true(isLedgerEqual(verification));
});
