import type { ExecutionContext } from "ava";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import type { Kind, Mode } from "../../../modules/records/owner.rules.ts";
import { SERVICE } from "../../../modules/accounts/audit.rules.ts";
import type { Clock } from "../../../runtime/clock.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import type { Billing } from "../../../modules/billing/createBilling.ts";
import { foldUsage } from "../../../modules/billing/folding/foldUsage.ts";
import type { FoldedStream, FoldOptions } from "../../../modules/billing/folding/foldUsage.ts";
import { readStatement, readStatementDetails } from "../../../modules/billing/readStatement.ts";
import { reconcileUsage } from "../../../modules/billing/reconciliation/reconcileUsage.ts";
import { drainUsage } from "../../../modules/billing/sending/drainUsage.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { readUsageReport } from "../../../modules/registrations/readUsageReports.ts";
import { refundRegistration } from "../../../modules/registrations/refundRegistration.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";

/** Shortly before an hour ends, so that usage of a minute is in two hours. */
export const START = Date.UTC(2026, 0, 10, 9, 59, 30) / 1000;

/** Usage of January is old enough by then. */
const LATER = new Date(Date.UTC(2026, 4, 20));

const JANUARY = { start: new Date(Date.UTC(2026, 0, 1)), end: new Date(Date.UTC(2026, 1, 1)) };

const signal = new AbortController().signal;

const countRow = z.strictObject({
  facts: z.bigint().transform(Number),
  events: z.bigint().transform(Number),
});

/** An organization whose usage of January 2026 the built-in ledger has billed. */
export type FoldSetup = {
  readonly db: DatabasePool;
  readonly accountId: string;
  readonly billing: Billing;
  /** The time, in unix seconds, at which everything but folding happens. */
  readonly second: () => number;
  readonly pass: (seconds: number) => void;
  readonly register: (
    count: number,
    given?: { readonly kind?: Kind; readonly mode?: Mode },
  ) => Promise<string>;
  readonly refund: (id: string, count?: number) => Promise<void>;
  /** Seals and sends everything. */
  readonly drain: (given?: { readonly kind?: Kind; readonly mode?: Mode }) => Promise<void>;
  readonly fold: (options?: Partial<FoldOptions>) => Promise<readonly FoldedStream[]>;
  /** Everything that folding must not change. */
  readonly read: () => Promise<unknown>;
  readonly counts: () => Promise<{ readonly facts: number; readonly events: number }>;
};

export const setUpFolding = async (t: ExecutionContext<DatabaseContext>): Promise<FoldSetup> => {
  const { db } = t.context;
  const time = { second: START };
  const clock: Clock = { now: () => new Date(time.second * 1000) };
  const billing = createBilling({ db, stripe: null });
  await billing.prepare();
  const { id: accountId } = await createTestOrganization(db, { clock });
  const writer = createRegistrationWriter({ db, clock });
  const deps = { db, clock, billing };
  const later: Clock = { now: () => LATER };
  const registered: { readonly id: string; readonly kind: Kind; readonly mode: Mode }[] = [];
  return {
    db,
    accountId,
    billing,
    second: () => time.second,
    pass: (seconds) => {
      time.second += seconds;
    },
    register: async (count, { kind = "tree", mode = "live" } = {}) => {
      const { registration } = await writer.register(
        registrationOf(accountId, { kind, mode, count }),
      );
      registered.push({ id: registration.id, kind, mode });
      return registration.id;
    },
    refund: async (id, count) => {
      const { kind = "tree", mode = "live" } = registered.find((each) => each.id === id) ?? {};
      await refundRegistration(
        deps,
        { accountId, mode, kind },
        { id, count: count ?? null, reason: null, idempotencyKey: null },
      );
      await db.query(sql.typeAlias("void")`
        UPDATE refund SET dispatched_at = created_at WHERE registration_id = ${id}
      `);
    },
    drain: async ({ kind = "tree", mode = "live" } = {}) => {
      time.second += 10;
      const stream = { accountId, mode, kind };
      const drain = () => drainUsage(deps, stream, { signal, onResult: () => undefined });
      let result = await drain();
      // It ends early on a slow machine.
      while (result.kind === "more") {
        result = await drain();
      }
      t.is(result.kind, "done");
    },
    fold: (options = {}) =>
      foldUsage(
        { db, clock: later, actor: SERVICE },
        { before: new Date(Date.UTC(2026, 2, 1)), accountId, isDryRun: false, ...options },
        () => undefined,
      ),
    read: async () => {
      const owner = { accountId, mode: "live" as const };
      const lateDeps = { ...deps, clock: later };
      const spans = [
        { start: START - 30 - 86_400, end: START - 30 + 86_400 },
        // It divides the hour.
        { start: START - 30, end: START + 30 },
        { start: START + 30, end: START + 90 },
      ];
      const reconciled = [];
      for (const each of spans) {
        reconciled.push(await reconcileUsage(lateDeps, { span: each }, signal));
        reconciled.push(await reconcileUsage(lateDeps, { span: each, accountId }, signal));
      }
      const reports = [];
      for (const { id, kind, mode } of registered) {
        reports.push(await readUsageReport({ db, billing }, { accountId, mode }, id, [kind]));
      }
      const details = [];
      for await (const detail of readStatementDetails(lateDeps, owner, JANUARY)) {
        details.push(detail);
      }
      return {
        statements: [
          await readStatement(lateDeps, owner, JANUARY, signal),
          await readStatement(
            lateDeps,
            owner,
            { start: new Date((START + 1) * 1000), end: new Date((START + 33) * 1000) },
            signal,
          ),
        ],
        details,
        reconciled,
        reports,
      };
    },
    counts: () =>
      db.one(sql.type(countRow)`
        SELECT
          (SELECT count(*) FROM usage_fact WHERE account_id = ${accountId}) AS facts,
          (SELECT count(*) FROM meter_event WHERE account_id = ${accountId}) AS events
      `),
  };
};

const foldedRow = z.strictObject({
  hour: z.bigint().transform(Number),
  registered: z.bigint().transform(Number),
  refunded: z.bigint().transform(Number),
  seconds: z.array(z.int()),
  lastSequence: z.int(),
});

/** Lists the rows that keep folded units, by hour. */
export const listFolded = ({ db, accountId }: FoldSetup) =>
  db.any(sql.type(foldedRow)`
    SELECT hour, registered, refunded, seconds, last_sequence AS "lastSequence"
    FROM folded_usage
    WHERE account_id = ${accountId}
    ORDER BY hour
  `);
