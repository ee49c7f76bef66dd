import type { Client } from "pg";

/** Tables of the schema, as `CREATE TABLE` statements with their columns and constraints. */
const TABLES = `
  SELECT format(
    E'CREATE %sTABLE %I (\\n  %s\\n)%s;',
    CASE relation.relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END,
    relation.relname,
    concat_ws(
      E',\\n  ',
      (
        SELECT string_agg(
          format('%I %s', attname, format_type(atttypid, atttypmod))
            || coalesce(
              (
                SELECT format(' COLLATE %I', collname)
                FROM pg_collation
                WHERE pg_collation.oid = attcollation
                  AND attcollation <> (SELECT typcollation FROM pg_type WHERE pg_type.oid = atttypid)
              ),
              ''
            )
            || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END
            || CASE
              WHEN attidentity = 'a' THEN ' GENERATED ALWAYS AS IDENTITY'
              WHEN attgenerated = 's' THEN format(' GENERATED ALWAYS AS (%s) STORED', pg_get_expr(adbin, adrelid))
              WHEN adbin IS NOT NULL THEN ' DEFAULT ' || pg_get_expr(adbin, adrelid)
              ELSE ''
            END,
          E',\\n  ' ORDER BY attnum
        )
        FROM pg_attribute
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE attrelid = relation.oid AND attnum > 0 AND NOT attisdropped
      ),
      (
        SELECT string_agg(
          format('CONSTRAINT %I %s', conname, pg_get_constraintdef(constraints.oid, true)),
          E',\\n  ' ORDER BY contype DESC, conname
        )
        FROM pg_constraint AS constraints
        WHERE conrelid = relation.oid AND contype <> 'n'
      )
    ),
    coalesce(format(' WITH (%s)', array_to_string(relation.reloptions, ', ')), '')
  ) AS statement
  FROM pg_class AS relation
  WHERE relation.relnamespace = 'public'::regnamespace AND relation.relkind = 'r'
  ORDER BY relation.relname
`;

/** Columns with more or fewer statistics than others. */
const STATISTICS = `
  SELECT format('ALTER TABLE %s ALTER %I SET STATISTICS %s;', attrelid::regclass, attname, attstattarget) AS statement
  FROM pg_attribute
  JOIN pg_class ON pg_class.oid = attrelid
  WHERE relnamespace = 'public'::regnamespace AND attstattarget >= 0
  ORDER BY attrelid::regclass::text, attname
`;

/** Statistics of expressions. */
const EXPRESSION_STATISTICS = `
  SELECT pg_get_statisticsobjdef(oid) || ';' AS statement
  FROM pg_statistic_ext
  WHERE stxnamespace = 'public'::regnamespace
  ORDER BY stxname
`;

/** Indexes that belong to no constraint. */
const INDEXES = `
  SELECT pg_get_indexdef(indexrelid) || ';' AS statement
  FROM pg_index
  JOIN pg_class ON pg_class.oid = indexrelid
  WHERE relnamespace = 'public'::regnamespace
    AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u'))
  ORDER BY indrelid::regclass::text, relname
`;

const SEQUENCES = `
  SELECT format('CREATE SEQUENCE %I AS %s;', relname, format_type(seqtypid, NULL)) AS statement
  FROM pg_sequence
  JOIN pg_class ON pg_class.oid = seqrelid
  WHERE relnamespace = 'public'::regnamespace
    AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = seqrelid AND deptype = 'i')
  ORDER BY relname
`;

const FUNCTIONS = `
  SELECT trim(trailing E'\\n' FROM pg_get_functiondef(pg_proc.oid)) || ';' AS statement
  FROM pg_proc
  WHERE pronamespace = 'public'::regnamespace
    AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_proc.oid AND deptype = 'e')
  ORDER BY proname
`;

const TRIGGERS = `
  SELECT pg_get_triggerdef(pg_trigger.oid) || ';' AS statement
  FROM pg_trigger
  WHERE NOT tgisinternal
  ORDER BY tgname
`;

const EXTENSIONS = `
  SELECT format('CREATE EXTENSION %I;', extname) AS statement
  FROM pg_extension
  WHERE extname <> 'plpgsql'
  ORDER BY extname
`;

/** Returns the statements that describe the database's schema, sorted, so that two dumps of one schema are equal. */
export const dumpSchema = async (client: Client): Promise<string> => {
  const sections: string[] = [];
  for (const query of [
    EXTENSIONS,
    SEQUENCES,
    TABLES,
    STATISTICS,
    EXPRESSION_STATISTICS,
    INDEXES,
    FUNCTIONS,
    TRIGGERS,
  ]) {
    const { rows } = await client.query<{ statement: string }>(query);
    sections.push(rows.map(({ statement }) => statement).join("\n\n"));
  }
  return `${sections.join("\n\n")}\n`;
};
