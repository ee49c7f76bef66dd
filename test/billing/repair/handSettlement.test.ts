import { z } from "zod";
import { readJson } from "../../cli/runImpact.ts";
import { sql } from "../../../db/sql.ts";
import { DELIVERED_LATE } from "../../../domain/billing/meterEvents.ts";
import { testWithDatabase } from "../../support/database.ts";
import { setCustomer, setUpUsage } from "./usageSetup.ts";

const test = testWithDatabase();

const REASON = ["--reason", "customer agreed", "--as", "ada"];

test.serial(
  "failed usage that was invoiced by hand is settled once, and never sent again",
  async (t) => {
    const scene = await setUpUsage(t);
    const id = await scene.register(4);
    await scene.drain();
    const [event = ""] = await scene.failedEvents();
    const settle = (...document: readonly string[]) =>
      scene.impact("usage", "settle", event, ...document, ...REASON, "--json");

    t.is((await settle()).exitCode, 2);
    t.is((await settle("--invoice-item", "ii_1", "--credit-note", "cn_1")).exitCode, 2);
    t.like(readJson(await settle("--invoice-item", "ii_1")), { replayed: false });
    t.like(readJson(await settle("--invoice-item", "ii_1")), { replayed: true });
    t.is((await settle("--invoice-item", "ii_2")).exitCode, 1);
    t.is((await settle("--credit-note", "ii_1")).exitCode, 1);

    t.deepEqual(await scene.failedEvents(), []);
    await setCustomer(scene);
    const retry = await scene.impact("usage", "retry", event);
    t.is(retry.exitCode, 1);
    t.regex(retry.stdout, /was settled by hand with ii_1/u);
    await scene.drain();
    t.is(scene.billed(), 0);
    const shown = await scene.impact("usage", "show", id);
    t.regex(shown.stdout, /settled by hand +invoice item ii_1/u);
    t.regex(shown.stdout, /settled: customer agreed; before: No such customer/u);
    const statement = await scene.impact("statement", "--org", scene.id, "--period", "current");
    t.regex(statement.stdout, /tree +total +4 +0 +0 +0 +0 +0 +4 +0 +0\n/u);
  },
);

test.serial(
  "late usage that was invoiced by hand stays delivered, and other usage is refused",
  async (t) => {
    const scene = await setUpUsage(t);
    await setCustomer(scene);
    await scene.register(4);
    await scene.drain();
    const listed = await scene.impact("usage", "list", "--org", scene.id, "--json");
    const event = /"meter_event_id": (\d+)/u.exec(listed.stdout)?.[1] ?? "";
    const args = ["usage", "settle", event, "--invoice-item", "ii_9", ...REASON];
    const early = await scene.impact(...args);
    t.is(early.exitCode, 1);
    t.regex(early.stderr, /is delivered: there is nothing to settle by hand/u);
    await t.context.db.query(sql.typeAlias("void")`
    UPDATE meter_event SET last_error = ${DELIVERED_LATE} WHERE id = ${event}
  `);
    t.is((await scene.impact(...args)).exitCode, 0);
    const late = await scene.impact("usage", "list", "--state", "late", "--json");
    t.deepEqual(readJson(late), []);
    t.is(
      (await scene.impact("usage", "settle", "999999", "--credit-note", "c", ...REASON)).exitCode,
      3,
    );
  },
);

for (const state of ["expired", "blocked", "waived", "held"] as const) {
  test.serial(`${state} usage that was settled by hand is never sent`, async (t) => {
    const scene = await setUpUsage(t);
    const { db } = t.context;
    const id = await scene.register(4);
    await scene.drain();
    const [failed = ""] = await scene.failedEvents();
    if (state === "held") {
      await scene.refund(id, 1);
      await scene.drain();
    } else {
      await db.query(sql.typeAlias("void")`
        UPDATE meter_event SET state = ${state} WHERE id = ${failed}
      `);
    }
    const event = await db.oneFirst(sql.type(z.strictObject({ id: z.bigint() }))`
      SELECT id FROM meter_event WHERE account_id = ${scene.id} AND state = ${state}
    `);
    const args = ["usage", "settle", String(event), "--credit-note", "cn_7", ...REASON];

    t.is((await scene.impact(...args)).exitCode, 0);
    t.regex((await scene.impact(...args)).stderr, /was settled with cn_7 before/u);

    await setCustomer(scene);
    const retry = await scene.impactLater("usage", "retry", String(event));
    t.is(retry.exitCode, 1);
    t.regex(retry.stdout, /was settled by hand with cn_7/u);
    await scene.drain();
    t.is(scene.billed(), 0);
    const settled = await db.oneFirst(sql.type(z.strictObject({ state: z.string() }))`
      SELECT state FROM meter_event WHERE id = ${event}
    `);
    t.is(settled, "waived");
  });
}
