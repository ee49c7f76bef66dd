import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { PROCESSORS } from "./usage.rules.ts";
import { RESTORE_HOLD } from "./deployment.rules.ts";
import type { Hold, LiveProcessor } from "./deployment.rules.ts";
import { assignments, columnsOf, idRow, safeInteger, sql, timestamp } from "../../db/sql.ts";

const storedRow = z.strictObject({
  id: z.uuid(),
  cell: z.string().nullable(),
  processor: z.enum(PROCESSORS).nullable(),
  stripeAccountId: z.string().nullable(),
  stripeLivemode: z.boolean().nullable(),
  originalStripeAccountId: z.string().nullable(),
  separatedAt: z.date().nullable(),
  server: z.string().nullable(),
  doubtedFactId: safeInteger.nullable(),
  doubtedUntil: z.date().nullable(),
  heldAt: z.date().nullable(),
  holdReason: z.string().nullable(),
  heldBy: z.string().nullable(),
  heldOn: z.string().nullable(),
});

const deploymentRow = storedRow
  .extend({ currentServer: z.string() })
  .transform(({ heldAt: at, holdReason, heldBy, heldOn, server, ...row }) => {
    const { stripeAccountId: id, stripeLivemode: isLive, currentServer } = row;
    const isHeld = at !== null && holdReason !== null && heldBy !== null;
    const isServerChanged = server !== null && server !== currentServer;
    const processor: LiveProcessor | null =
      id !== null && isLive !== null
        ? { name: "stripe", account: { id, isLive } }
        : row.processor && { name: "ledger" };
    const isHoldMissing = isHeld ? heldOn !== currentServer : isServerChanged;
    const ofOperator: Hold | null = isHeld ? { at, reason: holdReason, by: heldBy } : null;
    return {
      ...row,
      /** False for a new deployment, whose server is not recorded yet. */
      isIdentified: server !== null,
      /** Whether the row was recorded on another server, history or database. */
      isServerChanged,
      hold: isHoldMissing ? RESTORE_HOLD : ofOperator,
      /** Whether the database has changed without a later hold. A hold that began elsewhere may have ended there since. */
      isHoldMissing,
      processor,
    };
  });

export type Deployment = Readonly<z.output<typeof deploymentRow>>;

/**
 * The server, history and database of this connection. PUBLIC may call all of these functions. The timeline is the first part
 * of a WAL file's name: that of pg_control_checkpoint() lags behind a promotion. A copy within a server has another database,
 * and a restored dump has another table.
 */
const currentServer = sql.fragment`
  ROW(
    (SELECT system_identifier FROM pg_control_system()),
    left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
    (SELECT oid FROM pg_database WHERE datname = current_database()),
    'deployment'::regclass::oid
  )::text
`;

const columns = sql.fragment`
  ${columnsOf("deployment", storedRow)},
  ${currentServer} AS "currentServer"
`;

export const readDeployment = (db: CommonQueryMethods): Promise<Deployment> =>
  db.one(sql.prepared("read_deployment", deploymentRow)`
    SELECT ${columns}
    FROM deployment
  `);

export const lockDeployment = (transaction: DatabaseTransactionConnection): Promise<Deployment> =>
  transaction.one(sql.type(deploymentRow)`
    SELECT ${columns}
    FROM deployment
    FOR UPDATE
  `);

type Changes = {
  /** Null: the next worker records its own. */
  readonly processor?: LiveProcessor | null;
  /** Null ends the hold. This server is the deployment's from then on. */
  readonly hold?: (Hold & { readonly at: Date }) | null;
  /** Until when usage that is not delivered may have been sent in a history that was lost. Null: nothing was lost. */
  readonly doubtedUntil?: Date | null;
  /** Makes this copy a deployment of its own. The Stripe account in live mode that it has had is the original's. */
  readonly separatedAt?: Date;
};

export const changeDeployment = async (
  transaction: DatabaseTransactionConnection,
  { processor, hold, doubtedUntil, separatedAt }: Changes,
): Promise<void> => {
  const account = processor?.name === "stripe" ? processor.account : null;
  const columnsToSet = {
    ...(processor !== undefined && {
      processor: processor?.name ?? null,
      stripe_account_id: account?.id ?? null,
      stripe_livemode: account?.isLive ?? null,
    }),
    ...(hold !== undefined && {
      held_at: timestamp(hold?.at ?? null),
      hold_reason: hold?.reason ?? null,
      held_by: hold?.by ?? null,
      held_on: hold && currentServer,
      ...(hold === null && { server: currentServer }),
    }),
    ...(doubtedUntil !== undefined && {
      doubted_until: timestamp(doubtedUntil),
      doubted_fact_id: doubtedUntil && sql.fragment`(SELECT coalesce(max(id), 0) FROM usage_fact)`,
    }),
    ...(separatedAt && {
      separated_at: timestamp(separatedAt),
      original_stripe_account_id: sql.fragment`
        CASE WHEN stripe_livemode THEN stripe_account_id ELSE original_stripe_account_id END
      `,
    }),
  };
  await transaction.query(sql.typeAlias("void")`
    UPDATE deployment SET ${assignments(columnsToSet)}
  `);
};

export const hasLiveLedgerUsage = (db: CommonQueryMethods): Promise<boolean> =>
  db.exists(sql.typeAlias("void")`
    SELECT FROM meter_event WHERE mode = 'live' AND processor = 'ledger' AND state = 'delivered'
  `);

/** Gives the deployment a new id, which is returned, and records the server of this connection as its server. */
export const identifyDeployment = (transaction: DatabaseTransactionConnection): Promise<string> =>
  transaction.oneFirst(sql.type(idRow)`
    UPDATE deployment
    SET id = gen_random_uuid(), server = ${currentServer}
    RETURNING id
  `);

const askedRow = z.strictObject({
  events: safeInteger,
  unsealedFacts: safeInteger,
  lastSentAt: z.date().nullable(),
  lastRetryAt: z.date().nullable(),
});

/**
 * Counts the events about which the processor is asked before they are sent, and the facts that become such events. Returns
 * the latest times at which the events may have been sent, and at which they are attempted next.
 */
export const countAskedUsage = (db: CommonQueryMethods) =>
  db.one(sql.type(askedRow)`
    SELECT
      count(*) AS events,
      max(asking_since) AS "lastSentAt",
      max(retry_at) AS "lastRetryAt",
      (
        SELECT count(*)
        FROM usage_fact
        WHERE meter_event_id IS NULL AND id <= (SELECT doubted_fact_id FROM deployment)
      ) AS "unsealedFacts"
    FROM meter_event
    WHERE state = 'pending' AND asking_since IS NOT NULL
  `);
