import type { CallOptions, Reply, Transport, TransportRequest } from "./createTransport.ts";
import { ImpactError } from "./errors.ts";
import { nextQuery } from "./nextQuery.ts";
import type {
  ArgumentsOf,
  InputOf,
  ItemOf,
  OperationTable,
  QueryOf,
  ResultOf,
} from "./operationTypes.ts";
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

/** A list that is also a file. */
export type ExportableList<Page> = List<Page> & {
  /** Yields all records from one response, as fast as the program takes them: for exports. */
  readonly stream: () => AsyncGenerator<ItemOf<Page>, void, void>;
  /** Yields the text of the list as CSV. */
  readonly csv: () => AsyncGenerator<string, void, void>;
};

/** How a list continues: the query of the next page, or null after the last one. */
export type ReadNext = (reply: Reply, query: object) => object | null;

type Key<Operations> = keyof Operations & string;

/** Calls operations by their names. */
export type Caller<Operations> = {
  /** Calls an operation by its `operationId`, with what the API description says. */
  readonly call: <Id extends Key<Operations>>(
    operationId: Id,
    input: InputOf<Operations[Id]>,
    options?: WriteOptions,
  ) => Promise<ResultOf<Operations[Id]>>;
  readonly list: <Id extends Key<Operations>>(
    operationId: Id,
    query: QueryOf<Operations[Id]> | undefined,
    options: CallOptions | undefined,
    pageDefaults: object,
  ) => ExportableList<ResultOf<Operations[Id]>>;
};

/** A method for each operation, named as it is. Those of lists take the query and the options. */
export type Methods<Operations, Lists extends keyof Operations> = {
  readonly [Id in keyof Operations]: Id extends Lists
    ? (
        query?: QueryOf<Operations[Id]>,
        options?: CallOptions,
      ) => ExportableList<ResultOf<Operations[Id]>>
    : (...given: ArgumentsOf<Operations[Id], WriteOptions>) => Promise<ResultOf<Operations[Id]>>;
};

/** The parts of a request. The callers' types say which of them an operation accepts. */
type Input = {
  readonly body?: object;
  readonly query?: object;
  readonly path?: Readonly<Record<string, string>>;
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

const PATH_NAME = /\{(?<name>\w+)\}/gu;

const fillPath = (path: string, values: Readonly<Record<string, string>> = {}): string =>
  path.replaceAll(PATH_NAME, (_match, name: string) => {
    const value = values[name] ?? "";
    if (NO_SEGMENTS.has(value)) {
      throw new ImpactError(`${name}: must not be empty or consist of dots`);
    }
    return encodeURIComponent(value);
  });

const itemsIn = <Page>(page: Page): readonly ItemOf<Page>[] =>
  Object.values(page as object).find(Array.isArray) ?? [];

/** Joins the parts of a text and yields its lines. */
async function* linesOf(parts: AsyncIterable<string>): AsyncGenerator<string, void, void> {
  let rest = "";
  for await (const part of parts) {
    const lines = part.split("\n");
    lines[0] = `${rest}${lines[0] ?? ""}`;
    rest = lines.pop() ?? "";
    yield* lines;
  }
  if (rest !== "") {
    yield rest;
  }
}

/** Calls the operations of an interface. */
export const createCaller = <Operations extends object>(
  transport: Transport,
  operations: OperationTable,
  readNext: ReadNext = nextQuery,
): Caller<Operations> => {
  const requestOf = (operationId: string, { path, query, body }: Input) => {
    const operation = operations[operationId];
    if (operation === undefined) {
      throw new TypeError(`unknown operation: ${operationId}`);
    }
    return { ...operation, path: fillPath(operation.path, path), query, body };
  };

  async function* readPages(
    operationId: string,
    first: object,
    options: CallOptions,
  ): AsyncGenerator<unknown, void, void> {
    for (let query: object | null = first; query !== null;) {
      const reply: Reply = await transport.send(requestOf(operationId, { query }), options);
      yield reply.data;
      query = readNext(reply, query);
    }
  }

  return {
    call: async (operationId, input, { idempotencyKey, ...options } = {}) => {
      const { key, ...request } = requestOf(operationId, input as Input);
      const keyed = keyedBody(key, request.body, idempotencyKey);
      const { data } = await transport.send({ ...request, ...keyed }, options);
      return data as never;
    },
    list: (operationId, given, options = {}, pageDefaults) => {
      const query: object = given ?? {};
      const pages = () =>
        readPages(operationId, { ...pageDefaults, ...query }, options) as AsyncGenerator<never>;
      const download = (accept: string) =>
        transport.stream({ ...requestOf(operationId, { query }), accept }, options);
      return {
        pages,
        csv: () => download("text/csv"),
        stream: async function* stream() {
          for await (const line of linesOf(download("application/x-ndjson"))) {
            yield JSON.parse(line) as never;
          }
        },
        [Symbol.asyncIterator]: async function* records() {
          for await (const page of pages()) {
            yield* itemsIn(page);
          }
        },
      };
    },
  };
};

/** Returns the methods of all operations. */
export const createMethods = <Operations extends object, Lists extends keyof Operations & string>(
  operations: OperationTable,
  { call, list }: Caller<Operations>,
  /** The operations that are lists, with the query of a page. */
  lists: Readonly<Record<Lists, object>>,
): Methods<Operations, Lists> => {
  const pageDefaults: Readonly<Record<string, object>> = lists;
  const callWith = (operationId: never, given: readonly unknown[]) => {
    const { path = "", takes = [] } = operations[operationId] ?? {};
    const names = [...path.matchAll(PATH_NAME)].map((match) => match[1] ?? "");
    const values = names.map((name, index) => [name, given[index]]);
    const parts = takes.map((part, index) => [part, given[names.length + index] ?? {}]);
    const input = { path: Object.fromEntries(values) as object, ...Object.fromEntries(parts) };
    return call(operationId, input as never, given[names.length + takes.length] as WriteOptions);
  };
  const methods = Object.keys(operations).map((operationId) => {
    const defaults = pageDefaults[operationId];
    return [
      operationId,
      defaults === undefined
        ? (...given: readonly unknown[]) => callWith(operationId as never, given)
        : (query?: never, options?: CallOptions) =>
            list(operationId as never, query, options, defaults),
    ] as const;
  });
  return Object.fromEntries(methods) as Methods<Operations, Lists>;
};
