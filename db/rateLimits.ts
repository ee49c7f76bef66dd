import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "./sql.ts";

/** Takes a turn of a limit that all processes share; false when it is used up. */
export type TakePermit = (
  bucket: string,
  limit: { readonly turns: number; readonly windowMs: number },
) => Promise<boolean>;

/**
 * Takes a turn of a bucket that grants so many within any span of the window's length, whichever process asks. The
 * database's clock counts, and the row's lock puts concurrent turns in order. A turn that is not granted costs nothing;
 * one that lies ahead is from before the clock was set back and no longer counts.
 */
export const takePermit = (
  db: CommonQueryMethods,
  bucket: string,
  { turns, windowMs }: Parameters<TakePermit>[1],
): Promise<boolean> =>
  db
    .maybeOne(sql.type(z.strictObject({ granted: z.literal(true) }))`
      INSERT INTO rate_limit AS known (bucket, turns)
      VALUES (${bucket}, ARRAY[clock_timestamp()])
      ON CONFLICT (bucket) DO UPDATE
      SET turns = array_append(
        known.turns[greatest(cardinality(known.turns) - ${turns} + 2, 1):],
        clock_timestamp()
      )
      WHERE cardinality(known.turns) < ${turns}
        OR known.turns[cardinality(known.turns) - ${turns} + 1]
          NOT BETWEEN clock_timestamp() - ${windowMs} * interval '1 millisecond' AND clock_timestamp()
      RETURNING true AS granted
    `)
    .then((row) => row !== null);
