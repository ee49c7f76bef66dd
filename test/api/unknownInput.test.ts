import type { ExecutionContext } from "ava";
import { z } from "zod";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { startStandaloneApi } from "./startStandaloneApi.ts";

const test = testWithDatabase();

const operation = z.looseObject({
  parameters: z
    .array(
      z.looseObject({
        name: z.string(),
        in: z.string(),
        required: z.boolean(),
      }),
    )
    .default([]),
  requestBody: z
    .looseObject({
      content: z.looseObject({
        "application/json": z.looseObject({ example: z.record(z.string(), z.unknown()) }),
      }),
    })
    .optional(),
});
const description = z.looseObject({
  paths: z.record(z.string(), z.record(z.string(), operation)),
});

type Operation = {
  readonly method: string;
  readonly path: string;
  readonly described: z.output<typeof operation>;
};

type Headers = Readonly<Record<string, string>>;

/** Returns the operations of an API, with those first that create what others need, and those last that delete it. */
const readOperations = async (url: string): Promise<readonly Operation[]> => {
  const { paths } = description.parse(await (await fetch(`${url}/openapi.json`)).json());
  const rank = ({ method, path }: Operation): number => {
    if (method === "DELETE") {
      return 3;
    }
    return method === "POST" && !/refund|\{|disable/u.test(path)
      ? 0
      : path.endsWith("disable")
        ? 2
        : 1;
  };
  return Object.entries(paths)
    .flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, described]) => ({
        method: method.toUpperCase(),
        path,
        described,
      })),
    )
    .toSorted((one, other) => rank(one) - rank(other));
};

/** Replaces what differs from one account and one moment to another. */
const withoutIds = (text: string): string =>
  text
    .replaceAll(/evt_[0-9a-f]{48}/gu, "EVENT")
    .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/gu, "ID")
    .replaceAll(/\d{4}-\d{2}-\d{2}T[\d:.]+Z/gu, "TIME")
    .replaceAll(/(?<=whsec_|certificate\/|dashboard\/)[\w+/=-]+/gu, "TOKEN")
    .replaceAll(/shop-ID\.example/gu, "SHOP");

const UNKNOWN_PARAMETERS = "foo=1&foo=2&page%5B%5D=1&utm_source=mail&_=3&=x&count=9&__proto__=1";
const UNKNOWN_FIELDS = { foo: 1, page: { size: [null] }, "": "x", constructor: null };

/** The fields of responses that name what later requests act on. */
const ids = z.looseObject({
  tree_details: z.array(z.looseObject({ id: z.string() })).optional(),
  bottle_details: z.array(z.looseObject({ id: z.string() })).optional(),
  donation_id: z.string().optional(),
  secret: z.string().optional(),
  id: z.string().optional(),
  trees: z
    .array(z.looseObject({ id: z.string() }))
    .or(z.number())
    .optional(),
});

/** Calls all operations for one account and returns what they have responded. */
const callAll = async (
  url: string,
  operations: readonly Operation[],
  headers: Headers,
  { query, fields }: { readonly query: string; readonly fields: object },
): Promise<Readonly<Record<string, string>>> => {
  const known = new Map<string, string>();
  const idFor = (path: string, name: string): string => {
    const [subject] = /webhook|donation|plastic|bottle/u.exec(path) ?? ["tree"];
    return (
      known.get(name === "delivery_id" ? name : subject.replace("plastic", "bottle")) ?? "unknown"
    );
  };
  const remember = (path: string, body: z.output<typeof ids>): void => {
    const [tree = Array.isArray(body.trees) ? body.trees[0] : undefined] = body.tree_details ?? [];
    for (const [name, id] of [
      ["tree", tree?.id],
      ["bottle", body.bottle_details?.[0]?.id],
      ["donation", body.donation_id],
      ["webhook", body.secret === undefined ? undefined : body.id],
      ["delivery_id", path.endsWith("/ping") ? body.id : undefined],
    ] as const) {
      if (id !== undefined && !known.has(name)) {
        known.set(name, id);
      }
    }
  };
  const responses: Record<string, string> = {};
  for (const { method, path, described } of operations) {
    const target = path.replaceAll(/\{(\w+)\}/gu, (_, name: string) => idFor(path, name));
    const values: Readonly<Record<string, string>> = {
      id: idFor(path, "id"),
      kind: "tree",
      order_id: "1001",
      since: new Date().toISOString(),
    };
    const required = described.parameters
      .filter((parameter) => parameter.in === "query" && parameter.required)
      .map(({ name }) => `${name}=${values[name] ?? ""}`);
    const fill = (example: object): object => ({
      ...Object.fromEntries(
        Object.entries(example).map(([name, value]: [string, unknown]) => [
          name,
          name === "id" || name === "since" ? values[name] : value,
        ]),
      ),
      ...fields,
    });
    const example = described.requestBody?.content["application/json"].example ?? {};
    const items = z.array(z.looseObject({})).safeParse(example["items"]);
    const body = items.success ? { items: items.data.map(fill), ...fields } : fill(example);
    const send = async (): Promise<{ readonly status: number; readonly text: string }> => {
      const response = await fetch(
        `${url}${target}?${[...required, query].filter((part) => part !== "").join("&")}`,
        {
          method,
          headers: {
            ...headers,
            ...(method === "POST" ? { "Content-Type": "application/json" } : {}),
          },
          ...(method === "POST" ? { body: JSON.stringify(body) } : {}),
        },
      );
      return { status: response.status, text: await response.text() };
    };
    let { status, text } = await send();
    // Transactions of other tests hold events back.
    while (/"held_back_since":"/u.test(text)) {
      ({ status, text } = await send());
    }
    remember(path, ids.parse(JSON.parse(text)));
    responses[`${method} ${path}`] = `${status} ${withoutIds(text)}`;
  }
  return responses;
};

/** Calls all operations for two accounts in the same state, for one of them with unknown parameters and fields. */
const ignoresUnknown = async (
  t: ExecutionContext,
  url: string,
  [one, other]: readonly [Headers, Headers],
): Promise<Readonly<Record<string, string>>> => {
  const operations = await readOperations(url);
  const plain = await callAll(url, operations, one, { query: "", fields: {} });
  const decorated = await callAll(url, operations, other, {
    query: UNKNOWN_PARAMETERS,
    fields: UNKNOWN_FIELDS,
  });
  t.deepEqual(decorated, plain);
  return plain;
};

const statusesOf = (
  responses: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(responses)
      .map(([name, response]) => [name, response.slice(0, 3)] as const)
      .filter(([, status]) => status !== "200"),
  );

test("every operation of the standalone interface ignores unknown parameters and fields", async (t) => {
  const { db } = t.context;
  const { url } = await startStandaloneApi(t, { db });
  const headers = async (): Promise<Headers> => ({
    Authorization: (await createTestOrganization(db)).apiKeyTest,
  });

  const responses = await ignoresUnknown(t, url, [await headers(), await headers()]);

  t.deepEqual(statusesOf(responses), {});
});

test("every operation of the store interface ignores unknown parameters and fields", async (t) => {
  const { db } = t.context;
  const { url } = await startStoreApi(t, { db });

  const responses = await ignoresUnknown(t, url, [
    (await createTestStore(db)).test,
    (await createTestStore(db)).test,
  ]);

  t.deepEqual(statusesOf(responses), {});
});
