import { ownerKey } from "../../../modules/records/owner.rules.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { testWithDatabase } from "../../support/database.ts";
import { registrationOf } from "../../support/factories.ts";
import { sumLedgerUnits } from "../../support/sumLedgerUnits.ts";
import { eventually } from "../../support/programs.ts";
import { runSender, setUpSending } from "./sendingSetup.ts";
import type { SendingSetup } from "./sendingSetup.ts";

// Serial, because a sender serves everything that waits in the database of the file.
const test = testWithDatabase().serial;

const delayOf = (setup: SendingSetup, index: number): number | null => {
  const { results, organizations } = setup;
  const stream = organizations[index]?.stream;
  const last = results.findLast(({ key }) => stream && key === ownerKey(stream))?.result;
  return last?.kind === "delayed" ? last.afterMs : null;
};

test("while Stripe fails, the sender attempts the event of each stream with growing delays, and afterwards sends all usage in its order", async (t) => {
  const count = 23;
  const setup = await setUpSending(t, count);
  const { organizations, billedUnits, pass, reportOnce, reportAll, double, sends } = setup;
  const { control } = double;
  const registerAll = () => Promise.all(organizations.map(({ register }) => register(2)));
  control.addFault({ kind: "server_error", times: 1_000_000 });
  await registerAll();
  pass(5);
  for (let failure = 0; failure < 3; failure += 1) {
    await reportOnce();
    pass(10);
  }
  t.is(sends(), 3 * count);

  // The delays double from eight seconds to a minute.
  for (const longestMs of [8000, 16_000, 32_000, 60_000, 60_000]) {
    const before = sends();
    await reportOnce();
    t.is(sends(), before + count);
    for (const index of organizations.keys()) {
      const delayMs = delayOf(setup, index);
      t.is(delayMs, longestMs);
    }
    await reportOnce();
    t.is(sends(), before + count);
    await registerAll();
    pass(60);
  }

  control.clearFaults();
  await reportAll();
  t.deepEqual(
    billedUnits(),
    organizations.map(() => 12),
  );
  for (const { customerId } of organizations) {
    const seconds = control
      .events()
      .filter((event) => event.customerId === customerId)
      .map(({ second }) => second);
    t.is(seconds.length, 6);
    t.deepEqual(
      seconds,
      seconds.toSorted((left, right) => left - right),
    );
  }
  t.is(control.overlaps(), 0);
});

/** Registers test usage, which the ledger bills, of the first organization. Returns the number of units that are billed. */
const registerForLedger = async ({ deps, organizations }: SendingSetup) => {
  const accountId = organizations[0]?.stream.accountId ?? "";
  const writer = createRegistrationWriter(deps);
  await writer.register(registrationOf(accountId, { mode: "test", count: 3 }));
  return () => sumLedgerUnits(deps.db, { accountId, mode: "test", kind: "tree" });
};

test("calls to Stripe that take long do not delay the usage of the ledger", async (t) => {
  const setup = await setUpSending(t, 5);
  const { organizations, billedUnits, pass, double, sender } = setup;
  const { control } = double;
  control.addFault({ kind: "hold", times: 4 });
  await Promise.all(organizations.map(({ register }) => register(2)));
  pass(5);
  const own = sender({ maximumRunning: 4 });
  await own.scan();
  await eventually(() => control.held() === 4);

  const billedByLedger = await registerForLedger(setup);
  pass(5);
  await own.scan();

  await eventually(async () => (await billedByLedger()) === 3);
  t.is(control.held(), 4);
  t.is(organizations.filter(({ billed }) => billed() > 0).length, 0);
  control.release();
  await runSender(own);
  t.deepEqual(
    billedUnits(),
    organizations.map(() => 2),
  );
});
