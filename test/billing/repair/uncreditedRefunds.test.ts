import type { ExecutionContext } from "ava";
import { Registry } from "prom-client";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { getMeterEvent } from "../../../modules/billing/reconciliation/getMeterEvent.ts";
import { requireUnchanged } from "../../../modules/billing/reconciliation/requireUnchanged.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { addDatabaseMetrics } from "../../../worker/addDatabaseMetrics.ts";
import { diagnose } from "../../cli/diagnose.ts";
import { readJson } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { registrationOf } from "../../support/factories.ts";
import { listedEvent, setCustomer, setUpUsage } from "./usageSetup.ts";

// Serial, because the metric is of the whole database.
const test = testWithDatabase();

const REASON = ["--reason", "billed by hand"] as const;
const DOCUMENT = ["--invoice-item", "ii_1"] as const;

/** An organization whose usage of 10 units was rejected and closed by a command, and that refunds 3 of them afterwards. */
const setUpRefund = async (
  t: ExecutionContext<DatabaseContext>,
  close: readonly string[] | null,
) => {
  const scene = await setUpUsage(t);
  const run = async (...args: readonly string[]): Promise<void> => {
    const { exitCode, stderr } = await scene.impact(...args);
    t.is(exitCode, 0, stderr);
  };
  const list = async (state: string): Promise<readonly string[]> => {
    const listed = await scene.impact("usage", "list", "--state", state, "--json");
    const own = z.array(listedEvent.extend({ account_id: z.uuid() })).parse(readJson(listed));
    return own
      .filter(({ account_id }) => account_id === scene.id)
      .map(({ meter_event_id }) => String(meter_event_id));
  };
  const registrationId = await scene.register(10);
  await scene.drain();
  const [usageId = ""] = await list("failed");
  if (close) {
    await run("usage", ...close, usageId, ...REASON);
  }
  await scene.refund(registrationId, 3);
  await scene.drain();
  const [heldId = "", ...others] = await list("held");
  t.deepEqual(others, []);
  return {
    ...scene,
    run,
    readFinding: async (): Promise<string> =>
      (await diagnose(scene.impact)).of("uncredited refunds"),
    list,
    usageId,
    heldId,
    countUncredited: async (): Promise<string | undefined> => {
      const registry = new Registry();
      await addDatabaseMetrics(registry, { db: t.context.db, clock: systemClock })();
      const metric = await registry.getSingleMetricAsString("impact_meter_events_uncredited");
      return /^impact_meter_events_uncredited (?<count>\d+)$/mu.exec(metric)?.groups?.["count"];
    },
  };
};

for (const [how, close] of [
  ["was settled by hand", ["settle", ...DOCUMENT]],
  ["was waived", ["waive"]],
] as const) {
  for (const credit of [["settle", "--credit-note", "cn_1"], ["waive"]] as const) {
    test.serial(
      `a refund of usage that ${how} is uncredited until an operator runs \`usage ${credit[0]}\``,
      async (t) => {
        const scene = await setUpRefund(t, close);
        t.deepEqual(await scene.list("uncredited"), [scene.heldId]);
        t.is(await scene.countUncredited(), "1");

        await scene.run("usage", ...credit, scene.heldId, ...REASON);

        t.deepEqual(await scene.list("uncredited"), []);
        t.deepEqual(await scene.list("held"), []);
        t.is(await scene.countUncredited(), "0");
      },
    );
  }
}

test.serial("doctor reports uncredited refunds", async (t) => {
  const { readFinding, run, heldId } = await setUpRefund(t, ["settle", ...DOCUMENT]);

  t.is(await readFinding(), "wrong: 1 meter event; see `impact usage list --state uncredited`");
  await run("usage", "settle", heldId, "--credit-note", "cn_1", ...REASON);
  t.is(await readFinding(), "ok: none");
});

test.serial("a refund of failed usage is held, and is not uncredited", async (t) => {
  const scene = await setUpRefund(t, null);

  t.deepEqual(await scene.list("uncredited"), []);
  t.is(await scene.countUncredited(), "0");
  const waived = await scene.impact("usage", "waive", scene.heldId, ...REASON);
  t.is(waived.exitCode, 1);
  t.regex(waived.stdout, /is a refund that a retry of its usage sends/u);
  await setCustomer(scene);
  await scene.run("usage", "retry", scene.usageId);
  // Its facts are not in the held event any more.
  t.deepEqual(await scene.list("held"), []);
  const { state, lastError } = await getMeterEvent(t.context.db, BigInt(scene.heldId));
  t.is(state, "superseded");
  t.is(lastError, `refunds released because of event ${scene.usageId}`);
});

test.serial("a retry of waived usage also sends the refund of it that was waived", async (t) => {
  const scene = await setUpRefund(t, ["waive"]);
  await scene.run("usage", "waive", scene.heldId, ...REASON);
  await setCustomer(scene);

  await scene.run("usage", "retry", scene.usageId);

  await scene.drain();
  t.is(scene.billed(), 7);
  t.deepEqual(await scene.list("waived"), []);
});

test.serial("a refund that a retry of its usage has sent cannot be settled by hand", async (t) => {
  const scene = await setUpRefund(t, ["waive"]);
  await setCustomer(scene);
  await scene.run("usage", "retry", scene.usageId);
  await scene.drain();
  t.is(scene.billed(), 7);

  const args = ["usage", "settle", scene.heldId, "--credit-note", "cn_1", ...REASON];
  const settled = await scene.impact(...args);

  t.is(settled.exitCode, 1);
  t.regex(
    settled.stderr,
    /is superseded: its facts were released; `impact usage show` lists where they are/u,
  );
  const superseded = await scene.impact("usage", "settle", scene.usageId, ...DOCUMENT, ...REASON);
  t.regex(superseded.stderr, /is superseded: its facts were released; `impact usage show`/u);
});

test.serial("usage settle says how many units it settles, and checks --units", async (t) => {
  const { impact, heldId } = await setUpRefund(t, ["waive"]);
  const settle = (...args: readonly string[]) =>
    impact("usage", "settle", heldId, "--credit-note", "cn_1", ...REASON, ...args);

  const refused = await settle("--units", "-5");
  t.is(refused.exitCode, 1);
  t.regex(refused.stderr, /has -3 units, not -5/u);

  const settled = await settle("--units", "-3", "--json");
  t.is(settled.exitCode, 0, settled.stderr);
  t.like(readJson(settled), { quantity: -3, replayed: false });
  t.regex(settled.stderr, /Settled -3 units of event \d+ with cn_1/u);
  const replayed = await settle("--json");
  t.like(readJson(replayed), { quantity: -3, replayed: true });
  t.regex(replayed.stderr, /\(-3 units\) was already settled with cn_1/u);

  const afterFailover = ["usage", "correct", "--restored-at", "2026-05-15T12:00:00Z"];
  const failover = await impact(...afterFailover, "--units", "-3");
  t.is(failover.exitCode, 2);
});

test.serial("a credit note does not settle usage, and an invoice item no refund", async (t) => {
  const { impact, usageId, heldId, list } = await setUpRefund(t, null);

  const usage = await impact("usage", "settle", usageId, "--credit-note", "cn_1", ...REASON);
  const refund = await impact("usage", "settle", heldId, ...DOCUMENT, ...REASON);

  t.is(usage.exitCode, 1);
  t.regex(usage.stderr, /has 10 units to bill; name an invoice item, not a credit note/u);
  t.deepEqual(await list("failed"), [usageId]);
  t.is(refund.exitCode, 1);
  t.regex(refund.stderr, /has -3 units to return; name a credit note, not an invoice item/u);
  t.deepEqual(await list("held"), [heldId]);
});

test.serial("a retry of waived usage does not send a refund of it that was credited", async (t) => {
  const scene = await setUpRefund(t, ["waive"]);
  await scene.run("usage", "settle", scene.heldId, "--credit-note", "cn_1", ...REASON);
  await setCustomer(scene);

  await scene.run("usage", "retry", scene.usageId);

  await scene.drain();
  t.is(scene.billed(), 10);
});

test.serial(
  "a refund of waived and of failed usage is waived only after the failed usage",
  async (t) => {
    const { db } = t.context;
    const scene = await setUpUsage(t);
    const run = async (...args: readonly string[]) => {
      const { exitCode, stdout, stderr } = await scene.impact("usage", ...args);
      return exitCode === 0 ? "" : stdout + stderr;
    };
    const second = new Date(Date.now() - 10_000);
    const writer = createRegistrationWriter({ db, clock: { now: () => second } });
    const register = async (count: number): Promise<string> => {
      const { registration } = await writer.register(registrationOf(scene.id, { count }));
      await scene.drain();
      return registration.id;
    };
    const [first, other] = [await register(10), await register(5)];
    const [waivedId = "", failedId = ""] = (await scene.failedEvents()).toReversed();
    t.is(await run("waive", waivedId, ...REASON), "");
    await scene.refund(first, 3);
    await scene.refund(other, 2);
    await scene.drain();
    const list = async () => {
      const args = ["usage", "list", "--state", "held", "--org", scene.id, "--json"];
      const held = await scene.impact(...args);
      return z.array(listedEvent).parse(readJson(held));
    };
    const [refund, ...others] = await list();
    t.is(refund?.quantity, -5);
    t.deepEqual(others, []);

    t.regex(
      await run("waive", String(refund?.meter_event_id), ...REASON),
      /retry, settle or waive that usage first/u,
    );

    await setCustomer(scene);
    const before = await getMeterEvent(db, BigInt(refund?.meter_event_id ?? 0));
    t.is(await run("retry", failedId), "");
    await scene.drain();
    t.is(scene.billed(), 3);
    await t.throwsAsync(
      db.transaction((transaction) =>
        requireUnchanged(transaction, { events: [before], minutes: [], customers: new Map() }),
      ),
      { message: /changed in the meantime/u },
    );
    t.like(await list(), [
      {
        meter_event_id: refund?.meter_event_id,
        quantity: -3,
        last_error: `refunds released because of event ${failedId}`,
      },
    ]);
    t.is(await run("waive", String(refund?.meter_event_id), ...REASON), "");
  },
);

test.serial("a refund of waived test usage is not uncredited, and can be waived", async (t) => {
  const { impact, register, refund, drain, failedEvents, id } = await setUpUsage(t);
  const registrationId = await register(10, "test");
  await drain("test");
  // As the comparison after a restore does with usage of which it is unclear whether the ledger has it.
  await t.context.db.query(sql.typeAlias("void")`
    UPDATE meter_event SET state = 'blocked', outcome_unknown = true WHERE account_id = ${id}
  `);
  const [usageId = ""] = await failedEvents();
  t.is((await impact("usage", "waive", usageId, ...REASON)).exitCode, 0);
  await refund(registrationId, 3, "test");
  await drain("test");
  const list = async (state: string) => {
    const listed = await impact("usage", "list", "--state", state, "--org", id, "--json");
    return z.array(listedEvent).parse(readJson(listed));
  };
  const [held] = await list("held");
  t.is(held?.quantity, -3);
  t.deepEqual(await list("uncredited"), []);

  const waived = await impact("usage", "waive", String(held?.meter_event_id), ...REASON);

  t.is(waived.exitCode, 0, waived.stdout);
  t.deepEqual(await list("held"), []);
});
