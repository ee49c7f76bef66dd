import type { ExecutionContext } from "ava";
import { z } from "zod";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { startStandaloneApi } from "./startStandaloneApi.ts";

const test = testWithDatabase();

const description = z.looseObject({
  paths: z.record(z.string(), z.record(z.string(), z.unknown())),
});

const UNKNOWN_PARAMETERS = "foo=1&foo=2&page%5B%5D=1&utm_source=mail&_=3&=x&count=9&__proto__=1&&";
const UNKNOWN_FIELDS = { foo: 1, page: { size: [null] }, "": "x", constructor: null };

/** Replaces what differs from one moment to another. */
const withoutTimes = (text: string): string =>
  text.replaceAll(/\d{4}-\d{2}-\d{2}T[\d:.]+Z/gu, "TIME");

/**
 * Calls every operation with and without unknown parameters and fields. The response lists everything that is wrong with a
 * request, so what most operations lack here does not hide that an unknown name is rejected.
 */
const ignoresUnknown = async (
  t: ExecutionContext,
  url: string,
  headers: Readonly<Record<string, string>>,
): Promise<void> => {
  const { paths } = description.parse(await (await fetch(`${url}/openapi.json`)).json());
  let operations = 0;
  for (const [template, methods] of Object.entries(paths)) {
    for (const verb of Object.keys(methods)) {
      const method = verb.toUpperCase();
      const send = async (query: string, fields: object): Promise<string> => {
        const response = await fetch(
          `${url}${template.replaceAll(/\{\w+\}/gu, "unknown")}?${query}`,
          method === "POST"
            ? {
                method,
                headers: { ...headers, "Content-Type": "application/json" },
                body: JSON.stringify(fields),
              }
            : { method, headers },
        );
        return withoutTimes(`${response.status} ${await response.text()}`);
      };
      // The first call may change something, such as a subscription.
      await send("", {});
      const plain = await send("", {});
      t.is(await send(UNKNOWN_PARAMETERS, UNKNOWN_FIELDS), plain, `${method} ${template}`);
      t.false(plain.startsWith("5"), `${method} ${template}: ${plain}`);
      operations += 1;
    }
  }
  t.true(operations > 10);
};

test("every operation of the standalone interface ignores unknown parameters and fields", async (t) => {
  const { db } = t.context;
  const { url } = await startStandaloneApi(t, { db });
  const { apiKeyTest } = await createTestOrganization(db);
  await ignoresUnknown(t, url, { Authorization: apiKeyTest });
});

test("every operation of the store interface ignores unknown parameters and fields", async (t) => {
  const { db } = t.context;
  const { url } = await startStoreApi(t, { db });
  await ignoresUnknown(t, url, (await createTestStore(db)).test);
});
