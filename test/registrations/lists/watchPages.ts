import type { DatabasePool } from "slonik";
import { z } from "zod";

const page = z.object({ lines: z.string().nullable() });

/**
 * Returns the pool of lists with functions that are called before each page of a list is read, with its number from 1, and
 * after it, with its bytes.
 */
export const watchPages = (
  db: DatabasePool,
  {
    before = () => undefined,
    after = () => undefined,
  }: {
    readonly before?: (number: number) => unknown;
    readonly after?: (bytes: number) => void;
  },
): DatabasePool => {
  let number = 0;
  return {
    ...db,
    one: async (query, ...others) => {
      number += 1;
      await before(number);
      const row = await db.one(query, ...others);
      after(Buffer.byteLength(page.parse(row).lines ?? ""));
      return row;
    },
  };
};
