import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";

/** What identifies one leadership. After a failover a number may be assigned again, but not to the same holder. */
export type DispatcherLease = { readonly holder: string; readonly fencingNumber: bigint };

const leaseRow = z.strictObject({ holder: z.string(), fencingNumber: z.bigint() });

const inMs = (durationMs: number): FragmentSqlToken =>
  sql.fragment`clock_timestamp() + ${durationMs} * interval '1 millisecond'`;

const isHeldBy = ({ holder, fencingNumber }: DispatcherLease): FragmentSqlToken =>
  sql.fragment`fencing_number = ${fencingNumber} AND holder = ${holder}`;

/**
 * Acquires the lease of the dispatcher if it is free, by PostgreSQL's clock. A lease that would last more than twice the
 * length of a new one was acquired before that clock was set back, so it is ignored.
 * @returns the lease, or null if another process holds it
 */
export const acquireDispatcherLease = (
  db: CommonQueryMethods,
  { holder, durationMs }: { readonly holder: string; readonly durationMs: number },
): Promise<DispatcherLease | null> =>
  db.maybeOne(sql.type(leaseRow)`
    UPDATE dispatcher_lease
    SET
      fencing_number = fencing_number + 1,
      holder = ${holder},
      expires_at = ${inMs(durationMs)}
    WHERE expires_at IS NULL OR expires_at <= clock_timestamp() OR expires_at > ${inMs(2 * durationMs)}
    RETURNING holder, fencing_number AS "fencingNumber"
  `);

/**
 * Extends the lease, even if it has expired and no other process has acquired it.
 * @returns false if another process has acquired it
 */
export const renewDispatcherLease = async (
  db: CommonQueryMethods,
  lease: DispatcherLease,
  durationMs: number,
): Promise<boolean> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    UPDATE dispatcher_lease
    SET expires_at = ${inMs(durationMs)}
    WHERE ${isHeldBy(lease)}
  `);
  return rowCount === 1;
};

/** Ends the lease, so that another process need not wait until it expires. */
export const releaseDispatcherLease = async (
  db: CommonQueryMethods,
  lease: DispatcherLease,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE dispatcher_lease
    SET expires_at = NULL
    WHERE ${isHeldBy(lease)}
  `);
};

/**
 * Records that the holder has dispatched everything that was waiting.
 * @returns false if another process has acquired the lease; then nothing was recorded
 */
export const recordDispatcherPass = async (
  db: CommonQueryMethods,
  lease: DispatcherLease,
): Promise<boolean> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    UPDATE dispatcher_lease
    SET last_pass_at = clock_timestamp()
    WHERE ${isHeldBy(lease)}
  `);
  return rowCount === 1;
};

/**
 * A row while the lease is held, to join in a statement of its holder: the lock keeps other processes from acquiring the
 * lease before that statement has ended.
 */
export const heldDispatcherLease = (lease: DispatcherLease): FragmentSqlToken => sql.fragment`
  (SELECT FROM dispatcher_lease WHERE ${isHeldBy(lease)} FOR SHARE)
`;

const statusRow = z.strictObject({
  holder: z.string().nullable(),
  isHeld: z.boolean(),
  lastPassAgeSeconds: z.float64(),
});

/** Who dispatches, or did so last, and how long ago the last complete pass of any process was. */
export type DispatcherStatus = Readonly<z.output<typeof statusRow>>;

export const readDispatcherStatus = (db: CommonQueryMethods): Promise<DispatcherStatus> =>
  db.one(sql.type(statusRow)`
    SELECT
      holder,
      coalesce(expires_at > clock_timestamp(), false) AS "isHeld",
      greatest(0, extract(epoch FROM clock_timestamp() - last_pass_at))::double precision AS "lastPassAgeSeconds"
    FROM dispatcher_lease
  `);
