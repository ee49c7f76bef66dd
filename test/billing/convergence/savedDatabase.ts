import type { Client } from "pg";
import type { DatabasePool } from "slonik";
import { withClient } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";

/** The content of a database: the rows of its tables as JSON, and the positions of its sequences. */
export type Saved = {
  readonly tables: ReadonlyMap<string, string>;
  readonly sequences: ReadonlyMap<string, string>;
};

/** A database whose earlier content can be restored. */
export type SavedDatabase = {
  readonly db: DatabasePool;
  readonly databaseUrl: string;
  readonly save: () => Promise<Saved>;
  /** Restores the content. `onNewServer`: as a database that was restored, promoted or copied. */
  readonly restore: (saved: Saved, options: { readonly onNewServer: boolean }) => Promise<void>;
};

const TABLES = `
  SELECT
    relname AS name,
    (
      SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum)
      FROM pg_attribute
      WHERE attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
    ) AS columns
  FROM pg_class
  WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
`;

const SEQUENCES = `SELECT relname AS name FROM pg_class WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace`;

type Row = { readonly name: string; readonly columns: string; readonly content: string | null };

const list = async (owner: Client, text: string): Promise<readonly Row[]> =>
  (await owner.query<Row>(text)).rows;

const read = async (owner: Client, text: string): Promise<ReadonlyMap<string, string>> =>
  new Map(
    (await list(owner, text)).flatMap(({ name, content }) =>
      content === null ? [] : [[name, content]],
    ),
  );

/** Copies of databases would take most of the time of short random histories. */
export const createSavedDatabase = async ({
  db,
  databaseUrl,
  ownerUrl,
}: Pick<DatabaseContext, "db" | "databaseUrl" | "ownerUrl">): Promise<SavedDatabase> => {
  const asOwner = <Result>(work: (owner: Client) => Promise<Result>): Promise<Result> =>
    withClient(ownerUrl, work);
  const { tables, sequences } = await asOwner(async (owner) => ({
    tables: (await list(owner, TABLES)).filter(({ name }) => name !== "schema_migration"),
    sequences: await list(owner, SEQUENCES),
  }));
  const readTables = tables
    .map(
      ({ name }) =>
        `SELECT '${name}' AS name, (SELECT jsonb_agg(to_jsonb(row))::text FROM "${name}" AS row) AS content`,
    )
    .join(" UNION ALL ");
  const readSequences = sequences
    .map(
      ({ name }) =>
        `SELECT '${name}' AS name, format('%s, %L', last_value, is_called) AS content FROM "${name}"`,
    )
    .join(" UNION ALL ");
  const clear = tables.map(({ name }) => `DELETE FROM "${name}"`).join("; ");
  return {
    db,
    databaseUrl,
    save: () =>
      asOwner(async (owner) => ({
        tables: await read(owner, readTables),
        sequences: await read(owner, readSequences),
      })),
    restore: (saved, { onNewServer }) =>
      asOwner(async (owner) => {
        // Neither triggers nor references matter to rows that were there before.
        await owner.query(`BEGIN; SET session_replication_role = replica; ${clear}`);
        for (const { name, columns } of tables) {
          const rows = saved.tables.get(name);
          if (rows !== undefined) {
            await owner.query(
              `INSERT INTO "${name}" (${columns}) OVERRIDING SYSTEM VALUE
               SELECT ${columns} FROM jsonb_populate_recordset(NULL::"${name}", $1)`,
              [rows],
            );
          }
        }
        const positions = [...saved.sequences].map(
          ([name, position]) => `SELECT setval('"${name}"', ${position})`,
        );
        await owner.query(positions.join("; "));
        if (onNewServer) {
          await owner.query(
            "UPDATE deployment SET server = 'restored', held_on = CASE WHEN held_at IS NOT NULL THEN 'elsewhere' END",
          );
        }
        await owner.query("COMMIT");
      }),
  };
};
