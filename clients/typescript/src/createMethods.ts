import type { CallOptions, Reply, Send, TransportRequest } from "./createTransport.ts";
import { ImpactError } from "./errors.ts";
import type { ArgumentsOf, ItemOf, OperationTable, QueryOf, ResultOf } from "./operationTypes.ts";
import { checkKey } from "./parseOptions.ts";

export type WriteOptions = CallOptions & {
  /**
   * Identifies the write, in live mode permanently: sent again with the same key, it is recorded once. By default each call
   * has its own key, which protects its retries, but not a repetition by your program after a crash. If the body has
   * `idempotency_key`, they must be equal. In a batch, an item without that field gets this key, `#item-` and its index.
   */
  readonly idempotencyKey?: string;
};

/** The records of a list. A loop over it reads page after page. */
export type List<Page> = AsyncIterable<ItemOf<Page>> & {
  /** Yields the pages, with their totals. */
  readonly pages: () => AsyncGenerator<Page, void, void>;
};

/** How a list continues: the query of the next page, or null after the last one. */
export type ReadNext = (reply: Reply, query: object) => object | null;

type ListMethod<Operation> = (
  query?: QueryOf<Operation>,
  options?: CallOptions,
) => List<ResultOf<Operation>>;

/** A method for each operation, named as it is. Those of lists take the query and the options. */
export type Methods<Operations, Lists extends keyof Operations> = {
  readonly [Id in keyof Operations]: Id extends Lists
    ? ListMethod<Operations[Id]>
    : (...given: ArgumentsOf<Operations[Id], WriteOptions>) => Promise<ResultOf<Operations[Id]>>;
};

const KEY_FIELD = "idempotency_key";

const keyIn = (body: object | undefined): string | null => {
  const given: unknown = body !== undefined && KEY_FIELD in body ? body[KEY_FIELD] : null;
  return typeof given === "string" && given !== "" ? given : null;
};

/** What an item adds to the key of its batch. Keys of single writes hardly end so. */
const itemSuffix = (index: number): string => `#item-${index}`;

/** Returns a batch in which every item has a key. */
const withItemKeys = (body: object | undefined, key: string): object => {
  const { items = [], ...rest } = (body ?? {}) as { readonly items?: readonly object[] };
  const suffixes = items.flatMap((item, index) =>
    keyIn(item) === null ? [itemSuffix(index)] : [],
  );
  checkKey(key, suffixes.at(-1));
  return {
    ...rest,
    items: items.map((item, index) =>
      keyIn(item) === null
        ? Object.assign({}, item, { [KEY_FIELD]: `${key}${itemSuffix(index)}` })
        : item,
    ),
  };
};

/** Returns the body of a write and its key, which is in the body or will be in a header. */
const keyedBody = (
  key: OperationTable[string]["key"],
  body: object | undefined,
  given: string | undefined,
): Pick<TransportRequest, "body" | "idempotencyKey" | "isKeyInBody"> => {
  if (key === null) {
    if (given !== undefined) {
      throw new ImpactError("idempotencyKey: this call has no idempotency key");
    }
    return { body };
  }
  const inBody = key === "request" ? keyIn(body) : null;
  if (inBody !== null && given !== undefined && inBody !== given) {
    throw new ImpactError(`idempotencyKey: must equal the body's ${KEY_FIELD} if both are given`);
  }
  const idempotencyKey = inBody ?? given ?? crypto.randomUUID();
  return key === "items"
    ? { body: withItemKeys(body, idempotencyKey), idempotencyKey, isKeyInBody: true }
    : { body, idempotencyKey, isKeyInBody: inBody !== null };
};

/** Segments of a path that a URL does not keep. */
const NO_SEGMENTS: ReadonlySet<string> = new Set(["", ".", ".."]);

/** Replaces the names in a path by values, which are taken from the beginning of the list. */
const fillPath = (path: string, values: unknown[]): string =>
  path.replaceAll(/\{(?<name>\w+)\}/gu, (_match, name: string) => {
    const value = String((values.shift() as string | number | undefined) ?? "");
    if (NO_SEGMENTS.has(value)) {
      throw new ImpactError(`${name}: must not be empty or consist of dots`);
    }
    return encodeURIComponent(value);
  });

const callOperation = async (
  send: Send,
  { path, key, takes, ...operation }: OperationTable[string],
  given: readonly unknown[],
): Promise<unknown> => {
  const values = [...given];
  const filled = fillPath(path, values);
  const { body, query } = Object.fromEntries(takes.map((part) => [part, values.shift() ?? {}])) as {
    readonly body?: object;
    readonly query?: object;
  };
  const { idempotencyKey, ...options } = (values.shift() ?? {}) as WriteOptions;
  const keyed = keyedBody(key, body, idempotencyKey);
  return (await send({ ...operation, path: filled, query, ...keyed }, options)).data;
};

const itemsIn = <Page>(page: Page): readonly ItemOf<Page>[] =>
  Object.values(page as object).find(Array.isArray) ?? [];

/**
 * Returns the method of a list.
 * @param defaults the query of its pages
 */
export const createList =
  <Operation>(
    send: Send,
    { method, path }: OperationTable[string],
    defaults: object,
    readNext: ReadNext,
  ): ListMethod<Operation> =>
  (query, options = {}) => {
    async function* pages(): AsyncGenerator<ResultOf<Operation>, void, void> {
      for (
        let next: object | null = { ...defaults, ...(query as object | undefined) };
        next !== null;
      ) {
        const reply: Reply = await send({ method, path, query: next }, options);
        yield reply.data as ResultOf<Operation>;
        next = readNext(reply, next);
      }
    }
    return {
      pages,
      [Symbol.asyncIterator]: async function* records() {
        for await (const page of pages()) {
          yield* itemsIn(page);
        }
      },
    };
  };

/**
 * Returns the methods of all operations.
 * @param lists the operations that are lists, with the query of a page
 */
export const createMethods = <Operations extends object, Lists extends keyof Operations & string>(
  send: Send,
  operations: OperationTable,
  lists: Readonly<Record<Lists, object>>,
  readNext: ReadNext,
): Methods<Operations, Lists> => {
  const pageDefaults: Readonly<Record<string, object>> = lists;
  const methods = Object.entries(operations).map(([id, operation]) => {
    const defaults = pageDefaults[id];
    return [
      id,
      defaults === undefined
        ? (...given: readonly unknown[]) => callOperation(send, operation, given)
        : createList(send, operation, defaults, readNext),
    ];
  });
  return Object.fromEntries(methods) as Methods<Operations, Lists>;
};
