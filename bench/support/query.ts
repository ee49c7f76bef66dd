import { Client } from "pg";
import type { QueryResultRow } from "pg";

/** Runs a statement on a connection of its own. */
export const query = async <Row extends QueryResultRow>(
  databaseUrl: string,
  statement: string,
  values: readonly unknown[] = [],
): Promise<readonly Row[]> => {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const { rows } = await client.query<Row>(statement, [...values]);
    return rows;
  } finally {
    await client.end();
  }
};
