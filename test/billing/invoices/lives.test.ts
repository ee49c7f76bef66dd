import type { ExecutionContext } from "ava";
import { listInvoicedUsage } from "../../../modules/billing/invoices/invoicedUsage.sql.ts";
import type { InvoicedUsage } from "../../../modules/billing/invoices/invoiceReports.rules.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createRandom } from "../../support/random.ts";
import { setUpBilling } from "../billingSetup.ts";
import { compare, liveLife } from "./liveLife.ts";
import { fateOf } from "./lifeTruth.ts";
import type { Fate } from "./lifeTruth.ts";

const test = testWithDatabase().serial;

/* LIVES=1000 npm test -- test/billing/invoices/lives.test.ts runs as many; FIRST_SEED repeats one of them. */
const LIVES = Number(process.env["LIVES"] ?? 30);
const FIRST_SEED = Number(process.env["FIRST_SEED"] ?? 1);
const STEPS = 40;
const LIVES_OF_A_TEST = 10;

/** Returns why a row does not fit what became of the unit of one second, or null. */
const findMismatch = (fate: Fate, rows: readonly InvoicedUsage[]): string | null => {
  const problems = rows.flatMap(({ problem }) => problem ?? []);
  const lines = rows.filter(
    ({ quantity, problem }) => quantity !== null && (problem === null || problem === "late"),
  );
  switch (fate.kind) {
    case "waiting":
      return rows.length === 0 ? null : "it waits for its invoice";
    case "invoiced":
    case "late":
      return lines.length === 1 &&
        rows.length === 1 &&
        lines[0]?.subscriptionId === fate.subscriptionId
        ? null
        : "it is on one invoice";
    case "twice": {
      const twice = rows.find(({ problem }) => problem === "twice");
      const named = [twice?.subscriptionId, twice?.otherSubscriptionId];
      return named.every(
        (id) => id !== null && id !== undefined && fate.subscriptionIds.includes(id),
      ) && new Set(named).size === 2
        ? null
        : "two subscriptions bill it";
    }
    case "uninvoiced":
      return problems.length === 1 && fate.reasons.some((reason) => reason === problems[0])
        ? null
        : `no invoice has it: ${fate.reasons.join(" or ")}`;
  }
};

const checkLife = async (t: ExecutionContext<DatabaseContext>, seed: number): Promise<void> => {
  const setup = await setUpBilling(t);
  const { deps, double, stream, customerId } = setup;
  const { lives, log } = await liveLife(setup, createRandom(seed), STEPS);
  await compare(setup);
  const now = double.control.now();
  const rows = await listInvoicedUsage(deps.db, stream.accountId);
  const events = double.control.events().filter((event) => event.customerId === customerId);
  const units = new Map<string, number>();
  const describe = () => JSON.stringify({ seed, now, lives, rows, events, log }, null, 1);
  /** Refunds can make the sum of a second 0. */
  const seconds = Map.groupBy(events, ({ second }) => second);
  for (const [second, ofSecond] of seconds) {
    const covering = rows.filter(({ start, end }) => start <= second && second < end);
    for (const event of ofSecond) {
      const fate = fateOf(lives, event, now);
      if (fate.kind === "invoiced" || fate.kind === "late") {
        const [row] = covering;
        const key = `${fate.subscriptionId} ${row?.start} ${fate.kind}`;
        units.set(key, (units.get(key) ?? 0) + event.value);
      }
      const isGone = ofSecond.reduce((sum, { value }) => sum + value, 0) === 0;
      const mismatch = isGone ? null : findMismatch(fate, covering);
      if (mismatch !== null) {
        t.fail(
          `second ${second}: ${mismatch}, but the rows are ${JSON.stringify(covering)}\n${describe()}`,
        );
        return;
      }
    }
  }
  for (const row of rows) {
    if (row.quantity === null || (row.problem !== null && row.problem !== "late")) {
      continue;
    }
    const inTime = units.get(`${row.subscriptionId} ${row.start} invoiced`);
    const late = units.get(`${row.subscriptionId} ${row.start} late`) ?? 0;
    // The lines of each subscription then have the units. There is no row for units that were refunded again.
    const isBilledTwice = events.some(
      (event) =>
        event.second >= row.start &&
        event.second < row.end &&
        fateOf(lives, event, now).kind === "twice",
    );
    if (!isBilledTwice && (row.quantity !== Math.max(0, inTime ?? 0) || row.units !== late)) {
      t.fail(`${inTime} units in time and ${late} late, but ${JSON.stringify(row)}\n${describe()}`);
      return;
    }
  }
  t.deepEqual(double.control.problems(), []);
  t.deepEqual(
    rows.filter(({ problem }) => problem === "differs" || problem === "no_invoice"),
    [],
    describe(),
  );
  await double.close();
};

for (let first = FIRST_SEED; first < FIRST_SEED + LIVES; first += LIVES_OF_A_TEST) {
  test(`in lives from ${first}, each unit is invoiced once or named with its reason`, async (t) => {
    t.timeout(10 * 60_000);
    for (
      let seed = first;
      seed < Math.min(first + LIVES_OF_A_TEST, FIRST_SEED + LIVES);
      seed += 1
    ) {
      await checkLife(t, seed);
    }
  });
}
