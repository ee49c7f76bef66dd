import type { CallOptions, Reply, Send, TransportRequest } from "./createTransport.ts";
import { ImpactError } from "./errors.ts";

export type WriteOptions = CallOptions & {
  /**
   * Identifies the write, in live mode permanently: sent again with the same key, it is recorded once. By default each call
   * has its own key, which protects its retries, but not a repetition by your program after a crash. If the body has
   * `idempotency_key`, they must be equal. In a batch, an item without that field gets this key, `#item-` and its index.
   */
  readonly idempotencyKey?: string;
};

type Message = { readonly content: { readonly "application/json": unknown } };

/** The generated type of an operation; what it does not have is `never`. */
type Operation = {
  readonly parameters: { readonly path?: object; readonly query?: object };
  readonly requestBody?: Message;
  readonly responses: { readonly 200: Message };
};

type JsonOf<Content extends Message> = Content["content"]["application/json"];
type PathOf<Called extends Operation> = NonNullable<Called["parameters"]["path"]>;
type BodyOf<Called extends Operation> = JsonOf<NonNullable<Called["requestBody"]>>;
export type QueryOf<Called extends Operation> = NonNullable<Called["parameters"]["query"]>;
export type ResultOf<Called extends Operation> = JsonOf<Called["responses"][200]>;

/** One record of a list. */
type ItemOf<Result> = {
  [Field in keyof Result]: Result[Field] extends readonly (infer Item)[] ? Item : never;
}[keyof Result];

type PathArguments<Path> = [Path] extends [never] ? [] : [id: string];

type PartArguments<Value> = [Value] extends [never]
  ? []
  : object extends Value
    ? [value?: Value]
    : [value: Value];

/** The arguments of an operation's method: the names in its path, its body, its query and the options, if it has them. */
type ArgumentsOf<Called extends Operation> = [
  ...PathArguments<PathOf<Called>>,
  ...PartArguments<BodyOf<Called>>,
  ...PartArguments<QueryOf<Called>>,
  options?: WriteOptions,
];

/** How an operation is called; generated. */
type OperationTable = Readonly<
  Record<
    string,
    {
      readonly method: string;
      readonly path: string;
      /** What the operation takes idempotency keys for. */
      readonly key: "request" | "items" | null;
      /** What its method accepts after the names in the path. */
      readonly takes: readonly ("body" | "query")[];
    }
  >
>;

/** The records of a list. A loop over it reads page after page. */
export type List<Page> = AsyncIterable<ItemOf<Page>> & {
  /** Yields the pages, with their totals. */
  readonly pages: () => AsyncGenerator<Page, void, void>;
};

/** How a list continues: the query of the next page, or null after the last one. */
export type ReadNext = (reply: Reply, query: object) => object | null;

type ListMethod<Called extends Operation> = (
  query?: QueryOf<Called>,
  options?: CallOptions,
) => List<ResultOf<Called>>;

type Table<Operations> = { readonly [Id in keyof Operations]: Operation };

/** A method for each operation, named as it is. Those of lists take the query and the options. */
export type Methods<Operations extends Table<Operations>, Lists extends keyof Operations> = {
  readonly [Id in keyof Operations]: Id extends Lists
    ? ListMethod<Operations[Id]>
    : (...given: ArgumentsOf<Operations[Id]>) => Promise<ResultOf<Operations[Id]>>;
};

const KEY_FIELD = "idempotency_key";

const keyIn = (body: object | undefined): string | null => {
  const given: unknown = body !== undefined && KEY_FIELD in body ? body[KEY_FIELD] : null;
  return typeof given === "string" && given !== "" ? given : null;
};

/** Checks a key, whose length the service checks, and returns its UTF-8 bytes as the text of a header. */
const keyHeader = (key: string): string => {
  // oxlint-disable-next-line no-control-regex -- a header cannot have them.
  if (key === "" || key.trim() !== key || /[\u0000-\u001F\u007F]/u.test(key)) {
    throw new ImpactError(
      "idempotencyKey: must not be empty, begin or end with a space, or have control characters",
    );
  }
  return Array.from(new TextEncoder().encode(key), (byte) => String.fromCharCode(byte)).join("");
};

/** Returns a batch in which every item has a key. Keys of single writes hardly end as those of items do. */
const withItemKeys = (body: object = {}, key: string): object => {
  const { items = [], ...rest } = body as { readonly items?: readonly object[] };
  const keyOf = (item: object, index: number) => keyIn(item) ?? `${key}#item-${index}`;
  return {
    ...rest,
    items: items.map((item, index) => Object.assign({}, item, { [KEY_FIELD]: keyOf(item, index) })),
  };
};

/** Returns what a write is sent with: its key is in the body or in a header. */
const keyedParts = (
  key: OperationTable[string]["key"],
  body: object | undefined,
  given: string | undefined,
): Pick<TransportRequest, "body" | "idempotencyKey" | "headers"> => {
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
  const header = keyHeader(idempotencyKey);
  if (key === "items") {
    return { body: withItemKeys(body, idempotencyKey), idempotencyKey };
  }
  return {
    body,
    idempotencyKey,
    ...(inBody === null && { headers: { "Idempotency-Key": header } }),
  };
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

const itemsIn = <Page>(page: Page): readonly ItemOf<Page>[] =>
  Object.values(page as object).find(Array.isArray) ?? [];

type Dated = { readonly id?: unknown; readonly created_at?: string };

/**
 * Returns a test for records that no earlier page had, and that are no newer than those. Pages that are counted move: what is
 * recorded meanwhile moves records of a page to the next. The newest come first, so only the ids of one time are remembered.
 */
const createNoveltyTest = (): ((record: Dated) => boolean) => {
  const ids = new Set<unknown>();
  let time: string | null = null;
  return ({ id, created_at: createdAt = "" }) => {
    if (time === null || createdAt < time) {
      time = createdAt;
      ids.clear();
    }
    const count = ids.size;
    return createdAt === time && ids.add(id).size > count;
  };
};

/** @param defaults the query of the list's pages */
export const createList =
  <Called extends Operation>(
    send: Send,
    { method, path }: OperationTable[string],
    defaults: object,
    readNext: ReadNext,
  ): ListMethod<Called> =>
  (query, options = {}) => {
    async function* pages(): AsyncGenerator<ResultOf<Called>, void, void> {
      for (let next: object | null = { ...defaults, ...query }; next !== null;) {
        const reply: Reply = await send({ method, path, query: next }, options);
        yield reply.data as ResultOf<Called>;
        next = readNext(reply, next);
      }
    }
    async function* records(): AsyncGenerator<ItemOf<ResultOf<Called>>, void, void> {
      const isNew = "page_size" in defaults ? createNoveltyTest() : () => true;
      for await (const page of pages()) {
        for (const item of itemsIn(page as ResultOf<Called>)) {
          if (isNew(item as Dated)) {
            yield item;
          }
        }
      }
    }
    return { pages, [Symbol.asyncIterator]: records };
  };

/** @param lists the operations that are lists, with the query of a page */
export const createMethods = <
  Operations extends Table<Operations>,
  Lists extends keyof Operations & string,
>(
  send: Send,
  operations: OperationTable,
  lists: Readonly<Record<Lists, object>>,
  readNext: ReadNext,
): Methods<Operations, Lists> => {
  const pageDefaults: Readonly<Record<string, object>> = lists;
  const methods = Object.entries(operations).map(([id, operation]) => {
    const { method, path, key, takes } = operation;
    const call = async (...given: readonly unknown[]): Promise<unknown> => {
      const values = [...given];
      const filled = fillPath(path, values);
      const parts: Readonly<Record<string, object>> = Object.fromEntries(
        takes.map((part) => [part, values.shift() ?? {}]),
      );
      const { idempotencyKey, ...options } = (values.shift() ?? {}) as WriteOptions;
      const keyed = keyedParts(key, parts["body"], idempotencyKey);
      return (await send({ method, path: filled, query: parts["query"], ...keyed }, options)).data;
    };
    const defaults = pageDefaults[id];
    return [id, defaults === undefined ? call : createList(send, operation, defaults, readNext)];
  });
  return Object.fromEntries(methods) as Methods<Operations, Lists>;
};
