/** One statement reads that many rows in a millisecond or two. */
const MAXIMUM_BATCH = 200;
/** The second one starts while the first one's response is on its way. */
const MAXIMUM_RUNNING = 2;

type Waiting<Value> = {
  readonly resolve: (value: Value | null) => void;
  readonly reject: (error: unknown) => void;
};

/** Returns what a name stands for; null if it is unknown. */
export type LookUp<Value> = (name: string) => Promise<Value | null>;

/**
 * Looks names up in batches: two statements run at the same time, and names that arrive meanwhile wait for the next one.
 * So made-up names, however many, use at most two connections. Concurrent lookups of one name are one lookup.
 * @param find returns the values of the names that exist
 */
export const createLookups = <Value>(
  find: (names: readonly string[]) => Promise<ReadonlyMap<string, Value>>,
): LookUp<Value> => {
  /** In the order of arrival. */
  const waiting = new Map<string, Waiting<Value>>();
  const lookups = new Map<string, Promise<Value | null>>();
  let running = 0;

  const read = async (batch: ReadonlyMap<string, Waiting<Value>>): Promise<void> => {
    try {
      const values = await find([...batch.keys()]);
      for (const [name, { resolve }] of batch) {
        resolve(values.get(name) ?? null);
      }
    } catch (error) {
      for (const { reject } of batch.values()) {
        reject(error);
      }
    }
  };

  const startNext = (): void => {
    while (running < MAXIMUM_RUNNING && waiting.size > 0) {
      const batch = new Map([...waiting].slice(0, MAXIMUM_BATCH));
      for (const name of batch.keys()) {
        waiting.delete(name);
      }
      running += 1;
      void read(batch).finally(() => {
        running -= 1;
        startNext();
      });
    }
  };

  return (name) => {
    const known = lookups.get(name);
    if (known) {
      return known;
    }
    const lookup = new Promise<Value | null>((resolve, reject) => {
      waiting.set(name, { resolve, reject });
    }).finally(() => lookups.delete(name));
    lookups.set(name, lookup);
    startNext();
    return lookup;
  };
};
