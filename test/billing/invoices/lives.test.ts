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

/** Whether a row is of usage on an invoice. */
const isLine = ({ quantity, problem }: InvoicedUsage): boolean =>
  quantity !== null && (problem === null || problem === "late");

/** Returns whether the rows of one second are what became of its unit. */
const isFound = ({ found, payers }: Fate, rows: readonly InvoicedUsage[]): boolean => {
  if (found.includes("waiting")) {
    return rows.length === 0;
  }
  if (found.includes("twice")) {
    const twice = rows.find(({ problem }) => problem === "twice");
    const named = new Set([twice?.subscriptionId, twice?.otherSubscriptionId]);
    return payers.filter((id) => named.has(id)).length === 2;
  }
  if (payers.length === 1) {
    return rows.length === 1 && rows.every(isLine) && rows[0]?.subscriptionId === payers[0];
  }
  const problems = rows.flatMap(({ problem }) => problem ?? []);
  return problems.length === 1 && found.some((reason) => reason === problems[0]);
};

const checkLife = async (t: ExecutionContext<DatabaseContext>, seed: number): Promise<void> => {
  const setup = await setUpBilling(t);
  const { deps, double, stream, customerId } = setup;
  const { lives, log } = await liveLife(setup, createRandom(seed), STEPS);
  await compare(setup);
  const now = double.control.now();
  const rows = await listInvoicedUsage(deps.db, stream.accountId);
  const events = double.control.events().filter((event) => event.customerId === customerId);
  const fail = (message: string): never => {
    const life = JSON.stringify({ seed, now, lives, rows, events, log }, null, 1);
    throw new Error(`${message}\n${life}`);
  };
  const units = new Map<string, number>();
  for (const [second, ofSecond] of Map.groupBy(events, (event) => event.second)) {
    const covering = rows.filter(({ start, end }) => start <= second && second < end);
    // Refunds can make the sum of a second 0.
    const isGone = ofSecond.reduce((sum, { value }) => sum + value, 0) === 0;
    for (const event of ofSecond) {
      const fate = fateOf(lives, event, now);
      const key = `${fate.payers[0]} ${covering[0]?.start} ${fate.found[0]}`;
      units.set(key, (units.get(key) ?? 0) + event.value);
      if (!isGone && !isFound(fate, covering)) {
        fail(`second ${second}: ${JSON.stringify(fate)}, but ${JSON.stringify(covering)}`);
      }
    }
  }
  for (const row of rows.filter(isLine)) {
    const unitsOf = (found: string) =>
      units.get(`${row.subscriptionId} ${row.start} ${found}`) ?? 0;
    const [inTime, late] = [unitsOf("invoiced"), unitsOf("late")];
    // The lines of each subscription then have the units. There is no row for units that were refunded again.
    const isBilledTwice = events.some(
      (event) =>
        event.second >= row.start &&
        event.second < row.end &&
        fateOf(lives, event, now).found[0] === "twice",
    );
    if (!isBilledTwice && (row.quantity !== Math.max(0, inTime) || row.units !== late)) {
      fail(`${inTime} units in time and ${late} late, but ${JSON.stringify(row)}`);
    }
  }
  t.deepEqual(double.control.problems(), []);
  if (rows.some(({ problem }) => problem === "differs" || problem === "no_invoice")) {
    fail("an invoice differs or is missing");
  }
  await double.close();
};

for (let first = FIRST_SEED; first < FIRST_SEED + LIVES; first += LIVES_OF_A_TEST) {
  test(`in lives from ${first}, each unit is invoiced once or named with its reason`, async (t) => {
    t.timeout(10 * 60_000);
    const last = Math.min(first + LIVES_OF_A_TEST, FIRST_SEED + LIVES) - 1;
    for (let seed = first; seed <= last; seed += 1) {
      await checkLife(t, seed);
    }
  });
}
