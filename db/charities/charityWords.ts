import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { WordCount } from "../../domain/charities/wordGroups.ts";
import { sql } from "../sql.ts";

const wordRow = z.strictObject({ word: z.string(), charities: z.int() });
const partRow = wordRow.extend({ part: z.string() });

/** A part of one or two letters contains no trigram; the index covers it only at the start of a word. */
const MINIMUM_INNER_LENGTH = 3;

const partPattern = (part: string): string =>
  part.length < MINIMUM_INNER_LENGTH ? `${part}%` : `%${part}%`;

const byPart = (
  parts: readonly string[],
  rows: readonly z.output<typeof partRow>[],
): ReadonlyMap<string, readonly WordCount[]> => {
  const words = Map.groupBy(rows, ({ part }) => part);
  return new Map(parts.map((part) => [part, words.get(part) ?? []]));
};

/**
 * Lists, for each part, the words that contain it and that many charities have, the most frequent first. Of one or two
 * letters, the words that begin with them.
 * @param limit maximum words of a part
 */
export const listCommonWordsWith = async (
  db: CommonQueryMethods,
  parts: readonly string[],
  limit: number,
): Promise<ReadonlyMap<string, readonly WordCount[]>> =>
  byPart(
    parts,
    await db.any(sql.type(partRow)`
      SELECT given.part, found.word, found.charities
      FROM unnest(${sql.array(parts, "text")}, ${sql.array(parts.map(partPattern), "text")}) AS given (part, pattern)
      CROSS JOIN LATERAL (
        SELECT charity_word.word, charity_word.charities
        FROM charity_word
        WHERE charity_word.is_common AND charity_word.word LIKE given.pattern
        ORDER BY charity_word.charities DESC, charity_word.word
        LIMIT ${limit}
      ) AS found
      ORDER BY found.charities DESC, found.word
    `),
  );

/**
 * Lists, for each part, words as `listCommonWordsWith` does that few charities have, in any order.
 * @param limit maximum words of a part
 */
export const listRareWordsWith = async (
  db: CommonQueryMethods,
  parts: readonly string[],
  limit: number,
): Promise<ReadonlyMap<string, readonly WordCount[]>> =>
  byPart(
    parts,
    await db.any(sql.type(partRow)`
      SELECT given.part, found.word, found.charities
      FROM unnest(${sql.array(parts, "text")}, ${sql.array(parts.map(partPattern), "text")}) AS given (part, pattern)
      CROSS JOIN LATERAL (
        SELECT charity_word.word, charity_word.charities
        FROM charity_word
        WHERE NOT charity_word.is_common AND charity_word.charities > 0 AND charity_word.word LIKE given.pattern
        LIMIT ${limit}
      ) AS found
    `),
  );

/**
 * Returns those of the words that charities have, with their number. The planner does not see the words, because it would
 * compare each of a thousand with its statistics, which takes longer than the search.
 */
export const findCatalogueWords = async (
  db: CommonQueryMethods,
  words: readonly string[],
): Promise<ReadonlyMap<string, number>> => {
  const rows = await db.any(sql.type(wordRow)`
    SELECT charity_word.word, charity_word.charities
    FROM charity_word
    WHERE charity_word.word = ANY((SELECT ${sql.array(words, "text")})::text[]) AND charity_word.charities > 0
  `);
  return new Map(rows.map(({ word, charities }) => [word, charities]));
};

/**
 * Lists, for each given word, the most similar words that many charities have.
 * @param limit maximum words of a given word
 */
export const listSimilarWords = async (
  db: CommonQueryMethods,
  words: readonly string[],
  limit: number,
): Promise<ReadonlyMap<string, readonly WordCount[]>> =>
  byPart(
    words,
    await db.any(sql.type(partRow)`
      SELECT given.word AS part, found.word, found.charities
      FROM unnest(${sql.array(words, "text")}) AS given (word)
      CROSS JOIN LATERAL (
        SELECT charity_word.word, charity_word.charities
        FROM charity_word
        WHERE charity_word.is_common AND charity_word.word % given.word
        ORDER BY similarity(charity_word.word, given.word) DESC, charity_word.charities DESC
        LIMIT ${limit}
      ) AS found
      ORDER BY found.charities DESC, found.word
    `),
  );
