import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "../sql.ts";

const wordRow = z.strictObject({ word: z.string() });

/**
 * Lists words of the catalogue that contain letters or digits, the shortest first.
 * @param limit maximum words
 */
export const listWordsWith = (
  db: CommonQueryMethods,
  part: string,
  limit: number,
): Promise<readonly string[]> =>
  db.anyFirst(sql.type(wordRow)`
    SELECT charity_word.word
    FROM charity_word
    WHERE charity_word.word LIKE ${`%${part}%`}
    ORDER BY length(charity_word.word), charity_word.word
    LIMIT ${limit}
  `);

/** Returns those of the words that occur in the catalogue. */
export const findCatalogueWords = async (
  db: CommonQueryMethods,
  words: readonly string[],
): Promise<ReadonlySet<string>> =>
  new Set(
    await db.anyFirst(sql.type(wordRow)`
      SELECT charity_word.word
      FROM charity_word
      WHERE charity_word.word = ANY(${sql.array(words, "text")})
    `),
  );
