import { z } from "zod";
import { Difference } from "../../client.ts";
import type { Answer, Service, StoreKey } from "../../client.ts";
import { expect } from "../../expectations.ts";
import { storeRecord } from "../shapes.ts";

/** The contract's names of what a store registers. */
export const STORE_KINDS = {
  tree: {
    path: "/app/api/plant",
    field: "trees",
    result: "trees_planted",
    list: "trees",
    stat: "trees",
    refundType: "tree",
  },
  bottle: {
    path: "/app/api/plastic",
    field: "bottles",
    result: "bottles_rescued",
    list: "plastics",
    stat: "plastic_bottles",
    refundType: "plastic",
  },
} as const;
export type StoreKind = keyof typeof STORE_KINDS;

export type StoreRecord = z.output<typeof storeRecord>;

type StorePage = {
  readonly records: readonly StoreRecord[];
  readonly count: number;
  readonly hasMore: boolean;
  readonly nextCursor: string;
};

const readPage = (kind: StoreKind, answer: Answer): StorePage => {
  const { list } = STORE_KINDS[kind];
  const body = expect.body(
    answer,
    z.looseObject({
      [list]: z.array(storeRecord),
      count: z.int().min(0),
      has_more: z.boolean(),
      next_cursor: z.string(),
    }),
  );
  return {
    records: z.array(storeRecord).parse(body[list]),
    count: Number(body["count"]),
    hasMore: body["has_more"] === true,
    nextCursor: z.string().parse(body["next_cursor"]),
  };
};

const stats = z.looseObject({
  trees: z.int().min(0),
  plastic_bottles: z.int().min(0),
  donations: z.number().min(0),
  co2_kg: z.number(),
  customer_scoped: z.boolean(),
});

const reversed = z.looseObject({
  status: z.string().min(1),
  mode: z.enum(["PROD", "TEST"]),
  refunded_type: z.enum(["tree", "plastic", "donation"]),
  count: z.int().min(1),
});

export const readReversed = (answer: Answer) => expect.body(answer, reversed);

type Query = Readonly<Record<string, string>>;

/** Returns the requests of a store that concern all kinds. */
export const storeOf = (service: Service) => ({
  readStats: async (query: Query = {}, key: StoreKey = "test"): Promise<z.output<typeof stats>> =>
    expect.body(await service.store(key).get("/app/api/impact/stats", query), stats),
  reverse: (body: unknown, key: StoreKey = "test"): Promise<Answer> =>
    service.store(key).post("/app/api/refund", body),
});

export const storeRecordsOf = (kind: StoreKind) => (service: Service) => {
  const { path, field, result } = STORE_KINDS[kind];
  const listPage = async (query: Query = {}, key: StoreKey = "test"): Promise<StorePage> =>
    readPage(kind, await service.store(key).get(path, query));
  return {
    ...storeOf(service),
    listPage,
    write: async (body: Readonly<Record<string, unknown>>, key: StoreKey = "test") => {
      const answer = await service.store(key).post(path, { [field]: 1, ...body });
      const { [result]: units } = expect.body(
        answer,
        z.looseObject({ status: z.string().min(1), [result]: z.int().min(1) }),
      );
      expect.equal(result, units, body[field] ?? 1);
      return answer;
    },
    findRecord: async (query: Query, key: StoreKey = "test"): Promise<StoreRecord> => {
      const { records } = await listPage(query, key);
      const [record] = records;
      if (record === undefined || records.length > 1) {
        throw new Difference(
          `GET ${path} ${JSON.stringify(query)}: expected one record, got ${records.length}`,
        );
      }
      return record;
    },
    expectCount: async (query: Query, expected: number): Promise<void> => {
      const { records } = await listPage(query);
      expect.equal(`records of GET ${path} ${JSON.stringify(query)}`, records.length, expected);
    },
  };
};
