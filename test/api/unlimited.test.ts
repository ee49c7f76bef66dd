import { get } from "node:http";
import type { ExecutionContext } from "ava";
import { systemClock } from "../../runtime/clock.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { startStandaloneApi } from "./startStandaloneApi.ts";

const test = testWithDatabase();

const KEYS = ["production", "test"] as const;

const times = <Result>(
  count: number,
  send: (index: number) => Promise<Result>,
): Promise<readonly Result[]> =>
  Promise.all(Array.from({ length: count }, (_, index) => send(index)));

const statusesOf = (responses: readonly { readonly status: number }[]): readonly number[] => [
  ...new Set(responses.map(({ status }) => status)),
];

const setUp = async (t: ExecutionContext<DatabaseContext>, name: (typeof KEYS)[number]) => {
  const { db } = t.context;
  const api = await startStandaloneApi(t, { db });
  const { id, apiKeyProd, apiKeyTest } = await createTestOrganization(db);
  const isTest = name === "test";
  return {
    ...api,
    id,
    mode: isTest ? "test" : "live",
    key: isTest ? apiKeyTest : apiKeyProd,
  } as const;
};

for (const name of KEYS) {
  test(`300 requests at the same time with a ${name} key all succeed`, async (t) => {
    const { call, key } = await setUp(t, name);

    const planted = await times(300, () =>
      call("POST", "/plant/trees", { key, body: { count: 1 } }),
    );

    t.deepEqual(statusesOf(planted), [200]);
    const { body } = await call("GET", "/plant/trees", { key });
    t.is(body["total_planted_trees"], 300);
  });

  test(`30 overlapping lists with a ${name} key all succeed`, async (t) => {
    const { call, key, id, mode } = await setUp(t, name);
    const writer = createRegistrationWriter({ db: t.context.db, clock: systemClock });
    await times(50, () => writer.register(registrationOf(id, { mode })));

    const lists = await times(30, () => call("GET", "/plant/trees", { key }));

    t.deepEqual(statusesOf(lists), [200]);
  });

  test(`40 overlapping batches with a ${name} key all succeed`, async (t) => {
    const { call, key } = await setUp(t, name);
    const items = Array.from({ length: 200 }, () => ({ count: 1 }));

    const responses = await times(40, () =>
      call("POST", "/plant/trees/batch", { key, body: { items } }),
    );

    t.deepEqual(statusesOf(responses), [200]);
    const { body } = await call("GET", "/plant/trees?created_at=2100-01-01", { key });
    t.is(body["total_planted_trees"], 8000);
  });
}

test("300 overlapping requests of a store's test key all get their own answers", async (t) => {
  const { db } = t.context;
  const { get: read, post } = await startStoreApi(t, { db });
  const store = await createTestStore(db);

  const responses = await times(300, (index) => {
    switch (index % 3) {
      case 0:
        return post("/app/api/plant", store.test, { trees: 2 });
      case 1:
        return post("/app/api/plastic", store.test, { bottles: -1 });
      default:
        return read("/app/api/plant", store.test);
    }
  });

  for (const [index, status] of [200, 400, 200].entries()) {
    t.deepEqual(statusesOf(responses.filter((_, place) => place % 3 === index)), [status]);
  }
  const { body } = await read("/app/api/impact/stats", store.test);
  t.is(body["trees"], 200);
});

/** Without the time limit for connecting that `fetch` has. */
const statusOf = (url: string, key: string): Promise<{ readonly status: number }> =>
  new Promise((resolve, reject) => {
    get(url, { agent: false, headers: { Authorization: key } }, (response) => {
      response.resume();
      response.on("error", reject);
      response.on("end", () => resolve({ status: response.statusCode ?? 0 }));
    }).on("error", reject);
  });

test.serial("2,000 overlapping look-ups of one key all succeed", async (t) => {
  const { url, key, id, mode } = await setUp(t, "test");
  const writer = createRegistrationWriter({ db: t.context.db, clock: systemClock });
  const { registration } = await writer.register(registrationOf(id, { mode }));

  const responses = await times(2000, (index) =>
    statusOf(
      index % 2 === 0
        ? `${url}/evidence/tree/${registration.id}`
        : `${url}/plant/trees?id=${registration.id}`,
      key,
    ),
  );

  t.deepEqual(statusesOf(responses), [200]);
});
