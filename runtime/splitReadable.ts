import { z } from "zod";
import { setImmediate as yieldToOthers } from "node:timers/promises";

/** They take a few milliseconds. */
const ITEMS = 500;

/** Yields the items of a long list, and lets the process do other work after every 500 of them. */
export async function* yieldingEach<Item>(items: readonly Item[]): AsyncGenerator<Item> {
  for (const [index, item] of items.entries()) {
    if (index > 0 && index % ITEMS === 0) {
      await yieldToOthers();
    }
    yield item;
  }
}

/** Records that are left out, with the ids of the first ones; null for one without an id. */
export type LeftOut = { readonly count: number; readonly firstIds: readonly (string | null)[] };

const FIRST_IDS = 5;
/** An id that is too long may be the reason why a record cannot be read. */
const SHOWN_ID_CHARACTERS = 100;

const identified = z.object({ id: z.coerce.string().nullish(), uid: z.coerce.string().nullish() });

export const countLeftOut = (records: readonly unknown[]): LeftOut => ({
  count: records.length,
  firstIds: records.slice(0, FIRST_IDS).map((record) => {
    const { id, uid } = identified.safeParse(record).data ?? {};
    return (id ?? uid)?.slice(0, SHOWN_ID_CHARACTERS) ?? null;
  }),
});

/**
 * Returns the records that can be read. Any other counts as absent, so that one faulty record does not hide the others.
 * @throws ZodError if none can be read, because the API must have changed
 */
export const splitReadable = async <Schema extends z.ZodType>(
  records: readonly unknown[],
  schema: Schema,
) => {
  const readable: z.output<Schema>[] = [];
  const unreadable: unknown[] = [];
  let firstError: z.ZodError | undefined;
  for await (const record of yieldingEach(records)) {
    const { data, error } = schema.safeParse(record);
    if (data === undefined) {
      unreadable.push(record);
      firstError ??= error;
    } else {
      readable.push(data);
    }
  }
  if (firstError && readable.length === 0) {
    throw firstError;
  }
  return { readable, unreadable };
};
