import { z } from "zod";
import {
  countFailedProcessorEvents,
  insertProcessorEvent,
} from "../../../db/billing/processorEvents/processorEvents.ts";
import { sql } from "../../../db/sql.ts";
import { processProcessorEvents } from "../../../services/billing/processorEvents/processProcessorEvents.ts";
import { runImpact } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import { setUpBilling } from "../billingSetup.ts";

const test = testWithDatabase();

test("a failed event is retried, and discarded, and then counts no more", async (t) => {
  const { deps } = await setUpBilling(t);
  const run = (...args: readonly string[]) =>
    runImpact(["deployment", ...args], {
      env: { DATABASE_URL: t.context.databaseUrl },
      clock: deps.clock,
    });
  const process = () =>
    processProcessorEvents(
      { ...deps, observeRejection: () => undefined, observeFailedEvent: () => undefined },
      new AbortController().signal,
    );
  const stateOf = (): Promise<string> =>
    deps.db.oneFirst(sql.type(z.strictObject({ state: z.string() }))`
      SELECT state FROM processor_event WHERE id = 'evt_7'
    `);
  const now = deps.clock.now();
  const type = "v1.billing.meter.error_report_triggered";
  await insertProcessorEvent(deps.db, { id: "evt_7", type, objectId: null, createdAt: now }, now);
  const early = await run("discard-event", "evt_7", "--reason", "settled");
  t.is(early.exitCode, 1);
  t.regex(early.stderr, /evt_7 is pending: only failed events/u);
  await process();
  t.regex((await run("list-events")).stdout, /evt_7 +failed .*does not have the event evt_7/u);
  t.is(await countFailedProcessorEvents(deps.db), 1);

  t.is((await run("retry-event", "evt_7")).exitCode, 0);
  t.is(await stateOf(), "pending");
  await process();
  t.is(await stateOf(), "failed", "Stripe still does not have it");

  t.is((await run("discard-event", "evt_7", "--reason", "settled")).exitCode, 0);
  const again = await run("discard-event", "evt_7", "--reason", "settled");
  t.is(again.exitCode, 0);
  t.regex(again.stderr, /was discarded before/u);
  t.is(await stateOf(), "discarded");
  t.is(await countFailedProcessorEvents(deps.db), 0);
  t.is((await run("retry-event", "evt_none")).exitCode, 3);
});
