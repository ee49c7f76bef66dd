import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { PROCESSORS } from "./usage.rules.ts";
import type { LiveProcessor } from "./deployment.rules.ts";
import { safeInteger, sql, timestamp } from "../../db/sql.ts";

const deploymentRow = z
  .strictObject({
    id: z.uuid(),
    createdAt: z.date(),
    processor: z.enum(PROCESSORS).nullable(),
    stripeAccountId: z.string().nullable(),
    stripeLivemode: z.boolean().nullable(),
    originalStripeAccountId: z.string().nullable(),
    separatedAt: z.date().nullable(),
    processorRecordedAt: z.date().nullable(),
    processorRecordedBy: z.string().nullable(),
    systemIdentifier: z.string().nullable(),
    timeline: z.string().nullable(),
    isServerChanged: z.boolean(),
    isHoldFromElsewhere: z.boolean(),
    doubtedFactId: safeInteger.nullable(),
    doubtedUntil: z.date().nullable(),
    releasedAt: z.date().nullable(),
    releasedBy: z.string().nullable(),
    releasedHold: z.string().nullable(),
    heldAt: z.date().nullable(),
    holdReason: z.string().nullable(),
    heldBy: z.string().nullable(),
  })
  .transform(
    ({ processor, stripeAccountId, stripeLivemode, heldAt, holdReason, heldBy, ...row }) => ({
      ...row,
      hold:
        heldAt !== null && holdReason !== null && heldBy !== null
          ? { at: heldAt, reason: holdReason, by: heldBy }
          : null,
      processor: ((): LiveProcessor | null => {
        if (stripeAccountId !== null && stripeLivemode !== null) {
          return { name: "stripe", account: { id: stripeAccountId, isLive: stripeLivemode } };
        }
        return processor === null ? null : { name: "ledger" };
      })(),
    }),
  );

export type Deployment = Readonly<z.output<typeof deploymentRow>>;

/**
 * The server, history and database of this connection, in the order of the columns of `deployment`. PUBLIC may call all
 * of these functions. The timeline is the first part of a WAL file's name: that of pg_control_checkpoint() lags behind a
 * promotion. A copy within a server has another database, and a restored dump has another table.
 */
const server = sql.fragment`(
  (SELECT system_identifier::text FROM pg_control_system()),
  left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
  (SELECT oid::bigint FROM pg_database WHERE datname = current_database()),
  'deployment'::regclass::oid::bigint
)`;

const serverMark = z.strictObject({ database: z.string(), timeline: z.string() });

/** Which database this is, for comparison: a digest of its server and its object ids, and the server's timeline. */
export type ServerMark = Readonly<z.output<typeof serverMark>>;

export const readServerMark = (db: CommonQueryMethods): Promise<ServerMark> =>
  db.one(sql.type(serverMark)`
    SELECT left(md5(concat_ws('/', system_identifier, database_oid, table_oid)), 8) AS database, timeline
    FROM (VALUES ${server}) AS current (system_identifier, timeline, database_oid, table_oid)
  `);

/** Whether the row was recorded on another server, history or database. */
const isServerChanged = sql.fragment`(
  system_identifier IS NOT NULL AND (system_identifier, timeline, database_oid, table_oid) IS DISTINCT FROM ${server}
)`;

/** Whether the hold began on another server, history or database, where it may have ended since. */
const isHoldFromElsewhere = sql.fragment`(
  held_at IS NOT NULL AND held_on IS DISTINCT FROM ${server}::text
)`;

const columns = sql.fragment`
  id,
  created_at AS "createdAt",
  processor,
  stripe_account_id AS "stripeAccountId",
  stripe_livemode AS "stripeLivemode",
  original_stripe_account_id AS "originalStripeAccountId",
  separated_at AS "separatedAt",
  processor_recorded_at AS "processorRecordedAt",
  processor_recorded_by AS "processorRecordedBy",
  system_identifier AS "systemIdentifier",
  timeline,
  ${isServerChanged} AS "isServerChanged",
  ${isHoldFromElsewhere} AS "isHoldFromElsewhere",
  doubted_fact_id AS "doubtedFactId",
  doubted_until AS "doubtedUntil",
  released_at AS "releasedAt",
  released_by AS "releasedBy",
  released_hold AS "releasedHold",
  held_at AS "heldAt",
  hold_reason AS "holdReason",
  held_by AS "heldBy"
`;

/** The condition that usage may be sealed and sent. */
export const isUsageFlowing = sql.fragment`
  EXISTS (SELECT FROM deployment WHERE held_at IS NULL AND NOT ${isServerChanged})
`;

export const readDeployment = (db: CommonQueryMethods): Promise<Deployment> =>
  db.one(sql.prepared("read_deployment", deploymentRow)`
    SELECT ${columns}
    FROM deployment
  `);

/** Locks the deployment's row until the transaction ends, and returns it. */
export const lockDeployment = (transaction: DatabaseTransactionConnection): Promise<Deployment> =>
  transaction.one(sql.type(deploymentRow)`
    SELECT ${columns}
    FROM deployment
    FOR UPDATE
  `);

/** @param by the operator; null if a program has recorded its own processor */
export const recordProcessor = async (
  transaction: DatabaseTransactionConnection,
  processor: LiveProcessor,
  by: string | null,
): Promise<void> => {
  const account = processor.name === "stripe" ? processor.account : null;
  await transaction.query(sql.typeAlias("void")`
    UPDATE deployment
    SET
      processor = ${processor.name},
      stripe_account_id = ${account?.id ?? null},
      stripe_livemode = ${account?.isLive ?? null},
      processor_recorded_at = now(),
      processor_recorded_by = ${by}
  `);
};

const idRow = z.strictObject({ id: z.uuid() });

/** Gives the deployment a new id, which is returned. */
export const renewDeploymentId = (transaction: DatabaseTransactionConnection): Promise<string> =>
  transaction.oneFirst(sql.type(idRow)`
    UPDATE deployment
    SET id = gen_random_uuid()
    RETURNING id
  `);

/** Records when a copy became a deployment of its own. */
export const recordSeparation = async (
  transaction: DatabaseTransactionConnection,
  at: Date,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE deployment
    SET separated_at = ${timestamp(at)}
  `);
};

/** Forgets the processor. If that was a Stripe account in live mode, it becomes the original deployment's. */
export const forgetProcessor = async (
  transaction: DatabaseTransactionConnection,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE deployment
    SET
      original_stripe_account_id = CASE WHEN stripe_livemode THEN stripe_account_id ELSE original_stripe_account_id END,
      processor = NULL,
      stripe_account_id = NULL,
      stripe_livemode = NULL,
      processor_recorded_at = NULL,
      processor_recorded_by = NULL
  `);
};

/** Records the server of this connection as the deployment's. */
export const recordServer = async (transaction: DatabaseTransactionConnection): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE deployment
    SET (system_identifier, timeline, database_oid, table_oid) = ${server}
  `);
};

/** Records a hold that begins on the server of this connection. */
export const recordHold = async (
  transaction: DatabaseTransactionConnection,
  hold: { readonly at: Date; readonly reason: string; readonly by: string },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE deployment
    SET
      held_at = ${timestamp(hold.at)},
      hold_reason = ${hold.reason},
      held_by = ${hold.by},
      held_on = ${server}::text
  `);
};

/**
 * Records that usage which is not delivered may have been sent in a history that was lost, until a time: usage facts, and what
 * pending and failed events at Stripe stand for.
 */
export const doubtUsage = async (
  transaction: DatabaseTransactionConnection,
  until: Date,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE deployment
    SET
      doubted_until = ${timestamp(until)},
      doubted_fact_id = (SELECT coalesce(max(id), 0) FROM usage_fact)
  `);
};

/** Records that nothing was lost. */
export const endDoubt = async (transaction: DatabaseTransactionConnection): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE deployment SET doubted_until = NULL, doubted_fact_id = NULL
  `);
};

/** Ends the hold, and keeps a note of it. */
export const recordRelease = async (
  transaction: DatabaseTransactionConnection,
  {
    at,
    by,
    hold,
  }: { readonly at: Date; readonly by: string; readonly hold: { readonly reason: string } },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE deployment
    SET
      held_at = NULL,
      hold_reason = NULL,
      held_by = NULL,
      held_on = NULL,
      released_at = ${timestamp(at)},
      released_by = ${by},
      released_hold = ${hold.reason}
  `);
};
