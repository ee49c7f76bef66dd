import type { ExecutionContext } from "ava";
import { documentFor } from "../../../modules/billing/meterEvents.rules.ts";
import type { StoredMeterEvent } from "../../../modules/billing/meterEvents.rules.ts";
import { closeUsage, retryUsage } from "../../../modules/billing/reconciliation/repairUsage.ts";
import { reconcileUsage } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { resumeUsage } from "../../../modules/billing/holdUsage.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";
import { openTestPool } from "../../support/database.ts";
import { startRelay } from "../../support/relay.ts";
import { LAG_SECONDS } from "../convergence/world.ts";
import { REFUSED } from "../../stripeDouble/faults.ts";
import { testRepairs } from "./testRepairs.ts";
import type { Operator } from "./testRepairs.ts";

const test = testRepairs();

type Deps = ReturnType<Operator["deps"]>;

/** More than any of the use cases has. */
const MAXIMUM_STATEMENTS = 300;

/** A refusal says that there is nothing left to do. */
const ignoreRefusal = (error: unknown): void => {
  if (!(error instanceof DomainError)) {
    throw error;
  }
};

/**
 * Runs a use case whose process loses its connection after one statement of it, and after the next one in the next run, until it
 * ends. Each broken run is repeated, twice.
 * @param prepare what each run begins with
 */
const breakEverywhere = async <Prepared>(
  t: ExecutionContext,
  operator: Operator,
  prepare: () => Promise<Prepared>,
  useCase: (deps: Deps, prepared: Prepared) => Promise<unknown>,
): Promise<void> => {
  const { databaseUrl } = operator.database;
  for (let statement = 1; statement <= MAXIMUM_STATEMENTS; statement += 1) {
    const prepared = await prepare();
    const relay = await startRelay(t, databaseUrl);
    const db = await openTestPool(t, relay.url, 1);
    const billing = await operator.double.openBilling(db);
    relay.loseResponseAt(statement);
    const isBroken = await useCase({ ...operator.deps(), db, billing }, prepared).then(
      () => false,
      () => true,
    );
    relay.cut();
    for (let repetition = 0; repetition < 2; repetition += 1) {
      await useCase(operator.deps(), prepared).catch(ignoreRefusal);
    }
    if (!isBroken) {
      t.true(statement > 6, `${statement - 1} statements`);
      await operator.settle();
      return;
    }
  }
  throw new Error("The use case has more statements than expected.");
};

const requireDelivered = async (t: ExecutionContext, operator: Operator): Promise<void> => {
  t.deepEqual([...new Set(await operator.states())], ["delivered"]);
};

const fail = async (operator: Operator): Promise<StoredMeterEvent> => {
  operator.pass(60);
  return operator.fail(4);
};

/** Adds units of another program to another minute, and compares. */
const addSurplus = (operator: Operator): Promise<StoredMeterEvent> => {
  operator.pass(60);
  return operator.addSurplus(2);
};

/** Whether Stripe has the next usage of unknown outcome. */
let isApplied = false;

const RETRIED: Readonly<Record<string, (operator: Operator) => Promise<StoredMeterEvent>>> = {
  "refused usage": fail,
  "usage of unknown outcome": (operator) => {
    operator.pass(60);
    isApplied = !isApplied;
    return operator.failUnknown(4, isApplied);
  },
  "a difference": async (operator) => {
    await operator.send();
    return addSurplus(operator);
  },
};

for (const [what, prepare] of Object.entries(RETRIED)) {
  test(`a retry of ${what} that breaks at any statement bills it once`, async (t, operator) => {
    await breakEverywhere(
      t,
      operator,
      () => prepare(operator),
      (deps, { id }) => retryUsage(deps, id),
    );
    await requireDelivered(t, operator);
    t.deepEqual(await operator.reconcile(), []);
  });
}

test("usage, its refund and a difference that are closed by a command that breaks at any statement are closed once", async (t, operator) => {
  let documents = 0;
  const prepare = async () => {
    const difference = await addSurplus(operator);
    await fail(operator);
    await operator.refund(operator.registrations().at(-1) ?? t.fail(), 1);
    await operator.send();
    const events = [...(await operator.listEvents(["failed"])), difference];
    operator.billBy(events);
    documents += 1;
    return { events, reference: `ii_${documents}` };
  };
  await breakEverywhere(t, operator, prepare, (deps, { events, reference }) =>
    closeUsage(
      deps,
      events.map(({ id }) => id),
      { document: { kind: documentFor(1), reference }, expectedUnits: 1 },
    ),
  );
  t.deepEqual(await operator.listEvents(["pending", "failed"]), []);
  t.deepEqual(await operator.reconcile(), []);
});

test("a comparison that breaks at any statement finds each difference once", async (t, operator) => {
  await addSurplus(operator);
  await breakEverywhere(
    t,
    operator,
    () => Promise.resolve(),
    (deps) => reconcileUsage(deps, { span: operator.comparedSpan() }, new AbortController().signal),
  );
  const open = await operator.listDifferences();
  t.deepEqual([open.length, open[0]?.quantity], [1, -2]);
  await operator.retryAll();
  await operator.settle();
});

test("the end of a restore's hold that breaks at any statement asks about each event once", async (t, operator) => {
  const prepare = async (): Promise<void> => {
    await operator.settle();
    operator.pass(60);
    await operator.register(operator.accountIds[0] ?? "", 4);
    operator.control.addFault(REFUSED);
    await operator.register(operator.accountIds[1] ?? "", 2);
    await operator.send();
    await operator.register(operator.accountIds[2] ?? "", 1);
    await operator.restore(async () => {
      await operator.retryAll();
      await operator.send();
    });
  };
  await breakEverywhere(t, operator, prepare, (deps) => resumeUsage(deps));
  await operator.retryAll();
  await operator.settle();
  await requireDelivered(t, operator);
});

test("the questions and attempts of a sender that breaks at any statement bill once", async (t, operator) => {
  const prepare = async (): Promise<StoredMeterEvent> => {
    await operator.settle();
    operator.pass(60);
    const event = await operator.failUnknown(4, true);
    await operator.retry(event.id);
    await operator.register(event.accountId, 2);
    operator.pass(LAG_SECONDS);
    return event;
  };
  await breakEverywhere(t, operator, prepare, async (deps) => {
    await operator.world.sendWith(deps);
    await operator.world.sendWith(deps);
  });
  await requireDelivered(t, operator);
});
