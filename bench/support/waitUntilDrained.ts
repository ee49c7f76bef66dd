import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";

const DRAIN_WITHIN_MS = 10 * 60 * 1000;
const POLL_MS = 250;

export type Drained = {
  readonly units: number;
  readonly events: number;
  readonly attempts: number;
  readonly lastSettledAt: Date;
  /** Seconds from the end of a meter event's second to its delivery. */
  readonly lagsSeconds: readonly number[];
};

export const accountIds = (count: number): readonly string[] =>
  Array.from({ length: count }, () => crypto.randomUUID());

/** Waits until all usage of the accounts is delivered and returns statistics of the delivery. */
export const waitUntilDrained = async (
  databaseUrl: string,
  accounts: readonly string[],
): Promise<Drained> => {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const deadline = performance.now() + DRAIN_WITHIN_MS;
    for (;;) {
      const { rows } = await client.query<{ waiting: boolean }>(
        `SELECT
           EXISTS (SELECT FROM usage_fact WHERE meter_event_id IS NULL AND account_id = ANY($1))
           OR EXISTS (
             SELECT FROM meter_event WHERE state IN ('sealed', 'sending') AND account_id = ANY($1)
           ) AS waiting`,
        [accounts],
      );
      if (rows[0]?.waiting === false) {
        break;
      }
      if (performance.now() > deadline) {
        throw new Error(
          `Usage is still pending ${DRAIN_WITHIN_MS / 1000} seconds after the traffic.`,
        );
      }
      await sleep(POLL_MS);
    }
    const { rows } = await client.query<{
      quantity: string;
      attempts: number;
      second: string;
      settled_at: Date;
    }>(
      `SELECT quantity, attempts, second, settled_at FROM meter_event
       WHERE state = 'delivered' AND account_id = ANY($1)`,
      [accounts],
    );
    return {
      units: rows.reduce((sum, row) => sum + Number(row.quantity), 0),
      events: rows.length,
      attempts: rows.reduce((sum, row) => sum + row.attempts, 0),
      lastSettledAt: new Date(
        rows.reduce((last, row) => Math.max(last, row.settled_at.getTime()), 0),
      ),
      lagsSeconds: rows.map((row) => row.settled_at.getTime() / 1000 - Number(row.second) - 1),
    };
  } finally {
    await client.end();
  }
};

/** Waits until the first events are delivered and returns how many are. */
export const waitUntilDelivering = async (databaseUrl: string): Promise<number> => {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    for (;;) {
      const { rows } = await client.query<{ count: number }>(
        "SELECT count(*)::integer AS count FROM meter_event WHERE state = 'delivered'",
      );
      const count = rows[0]?.count ?? 0;
      if (count > 0) {
        return count;
      }
      await sleep(POLL_MS);
    }
  } finally {
    await client.end();
  }
};

export const countRegistrations = async (databaseUrl: string): Promise<number> => {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const { rows } = await client.query<{ count: string }>("SELECT count(*) FROM registration");
    return Number(rows[0]?.count);
  } finally {
    await client.end();
  }
};

/** @throws Error unless all registered units were delivered; the measured time would mean nothing otherwise */
export const requireUnits = ({ units }: Drained, expected: number): void => {
  if (units !== expected) {
    throw new Error(`${units} of ${expected} registered units were delivered.`);
  }
};
