import type { ExecutionContext } from "ava";
import { z } from "zod";
import { insertProcessorEvent } from "../../../modules/billing/processorEvents/processorEvents.sql.ts";
import { sql } from "../../../db/sql.ts";
import { applyRejectionReport } from "../../../modules/billing/processorEvents/applyRejectionReport.ts";
import { readJson } from "../../cli/runImpact.ts";
import { setUpRestore } from "./restoreSetup.ts";

export const LAG_SECONDS = 16 * 60;

const reconciled = z.looseObject({
  streams: z.array(
    z.looseObject({ differences: z.array(z.looseObject({ difference_id: z.int() })) }),
  ),
});

const report = z.looseObject({ corrections: z.array(z.looseObject({})) });

const eventRow = z.object({ id: z.bigint(), identifier: z.string(), state: z.string() });

/** Applies Stripe's report of an event that it has refused after it had accepted it. */
export const reportRefusal = async (
  { db, clock }: Pick<Parameters<typeof applyRejectionReport>[0], "db" | "clock">,
  identifier: string,
): Promise<void> => {
  const now = clock.now();
  const event = {
    id: `evt_${crypto.randomUUID()}`,
    type: "v1.billing.meter.error_report_triggered",
    objectId: null,
  };
  await insertProcessorEvent(db, { ...event, createdAt: now }, now);
  await applyRejectionReport({ db, clock, observeRejection: () => undefined }, event.id, {
    windowStart: now,
    windowEnd: now,
    rejections: [
      { code: "archived_meter", errors: 1, samples: [{ identifier, message: "refused" }] },
    ],
  });
};

/** A deployment with delivered events in the seconds of one minute. Stripe's sums show what it has of them. */
export const setUpMinute = async (
  t: ExecutionContext,
  counts: readonly number[],
  { lost }: { readonly lost: readonly number[] },
) => {
  const scene = await setUpRestore(t);
  const { original, impact, control, pass } = scene;
  const registrations: string[] = [];
  for (const count of counts) {
    registrations.push(await scene.register(original, count));
    pass(1);
  }
  pass(5);
  await scene.drain(original);
  const listEvents = () =>
    original.db.any(sql.type(eventRow)`SELECT id, identifier, state FROM meter_event ORDER BY id`);
  const lose = async (place: number): Promise<void> => {
    const event = (await listEvents())[place];
    t.assert(event);
    control.rejectAccepted({ identifier: event?.identifier ?? "" });
  };
  for (const place of lost) {
    await lose(place);
  }
  const run = (...args: readonly string[]) => impact(original, "usage", ...args);
  const runOn = async (command: string, place: number, ...args: readonly string[]) =>
    run(command, String((await listEvents())[place]?.id), ...args);
  pass(LAG_SECONDS);
  return {
    ...scene,
    run,
    lose,
    registrations,
    states: async () => (await listEvents()).map(({ state }) => state),
    reopen: (place: number) => runOn("reopen", place, "--reason", "lost", "--as", "ada"),
    retry: async (place: number, ...args: readonly string[]) =>
      readJson(await runOn("retry", place, "--json", ...args)),
    /** Stores the difference of the minute. Returns the arguments that acknowledge it. */
    findDifference: async () => {
      const [difference] = reconciled
        .parse(readJson(await run("reconcile", "--json")))
        .streams.flatMap(({ differences }) => differences);
      t.assert(difference);
      const id = String(difference?.difference_id);
      return ["acknowledge-drift", id, "--reason", "billed by hand"] as const;
    },
    /** Applies Stripe's report of an event that it has lost. */
    report: async (place: number): Promise<void> => {
      await reportRefusal(original.deps, (await listEvents())[place]?.identifier ?? "");
      pass(LAG_SECONDS);
    },
    waive: (place: number) => runOn("waive", place, "--reason", "too old"),
    settle: (place: number) =>
      runOn("settle", place, "--invoice-item", "ii_1", "--reason", "billed by hand"),
    /** As after a failover in the last minutes. */
    correctLostRefunds: async () => {
      pass(60 * 60);
      const restoredAt = new Date((control.now() - 30 * 60) * 1000).toISOString();
      const options = ["--include-lost-refunds", "--reason", "failover", "--json"];
      return report.parse(readJson(await run("correct", "--restored-at", restoredAt, ...options)));
    },
    refuseNext: () =>
      control.addFault({
        kind: "respond",
        status: 400,
        body: { error: { type: "invalid_request_error", message: "No such customer" } },
      }),
    block: async (place: number): Promise<void> => {
      await original.db.query(sql.typeAlias("void")`
        UPDATE meter_event SET state = 'blocked', outcome_unknown = true
        WHERE id = ${(await listEvents())[place]?.id ?? 0n}
      `);
    },
  };
};

/** The same after the difference of the minute was acknowledged. */
export const setUpAcknowledged = async (...args: Parameters<typeof setUpMinute>) => {
  const [t] = args;
  const scene = await setUpMinute(...args);
  const acknowledged = await scene.run(...(await scene.findDifference()));
  t.is(acknowledged.exitCode, 0, acknowledged.stderr);
  return scene;
};
