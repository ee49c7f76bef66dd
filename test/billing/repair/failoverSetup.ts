import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { guardUsage } from "../../../modules/billing/holdUsage.ts";
import { readJson } from "../../cli/runImpact.ts";
import type { Run } from "../../cli/runImpact.ts";
import { NOON, setUpRestore } from "./restoreSetup.ts";

export const LAG_SECONDS = 16 * 60;
export const RESTORED_AT = new Date((NOON + 60) * 1000).toISOString();
export const CORRECT = ["usage", "correct", "--restored-at", RESTORED_AT] as const;
export const REASON = ["--reason", "failover", "--as", "ada"] as const;

export const countCorrections = async ({ db }: { readonly db: DatabasePool }): Promise<number> =>
  Number(
    await db.oneFirst(sql.type(z.strictObject({ count: z.bigint() }))`
      SELECT count(*) AS count FROM usage_correction
    `),
  );

const report = z.object({
  corrections: z.array(
    z.object({
      correction_id: z.int().nullable(),
      at: z.iso.datetime(),
      ours: z.int(),
      processor: z.int(),
      correction: z.int().nullable(),
      action: z.string(),
      reason: z.string().nullable(),
    }),
  ),
});

/** Returns the minute after the start, the action and the correction of each difference. */
export const summaryOf = (run: Run): readonly (readonly [number, string, number | null])[] =>
  report
    .parse(readJson(run))
    .corrections.map(({ at, action, correction }) => [
      Math.floor((Date.parse(at) / 1000 - NOON) / 60),
      action,
      correction,
    ]);

/**
 * A failover to a standby that lost the last two minutes. Minute 0 has 52 units on both sides; in minute 1, the database
 * has 10 and Stripe 34; in minute 2, Stripe has 7 and the database has nothing. What waited has been settled.
 */
export const setUpFailover = async (t: Parameters<typeof setUpRestore>[0]) => {
  const scene = await setUpRestore(t);
  const { register, drain, pass, impact, control } = scene;
  const kept = await register(scene.original, 52);
  pass(60);
  await drain(scene.original);
  await register(scene.original, 10);
  pass(1);
  const { continued, restored } = await scene.fork(scene.original);
  await register(continued, 24, "order-1");
  pass(60);
  await register(continued, 7, "order-2");
  pass(10);
  await drain(continued);
  await guardUsage(restored.deps);
  pass(LAG_SECONDS);
  const settled = await impact(restored, "usage", "compare-and-release");
  t.is(settled.exitCode, 0, settled.stderr);
  await drain(restored);
  pass(LAG_SECONDS);
  return {
    ...scene,
    continued,
    restored,
    kept,
    lost: { 0: 52, 1: 34, 2: 7 },
    corrected: { 0: 52, 1: 10 },
    minuteNow: () => Math.floor((control.now() - NOON) / 60),
    driftOf: async (): Promise<unknown> => {
      const run = await impact(restored, "usage", "reconcile", "--json");
      return z
        .object({ streams: z.array(z.object({ drift: z.int().nullable() })) })
        .parse(readJson(run))
        .streams.map(({ drift }) => drift);
    },
  };
};
