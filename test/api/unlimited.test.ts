import { testWithDatabase } from "../support/database.ts";
import { startApiOf } from "./startStandaloneApi.ts";

const test = testWithDatabase();

for (const name of ["production", "test"]) {
  test(`40 overlapping batches with a ${name} key all succeed`, async (t) => {
    const { call, apiKeyProd, apiKeyTest } = await startApiOf(t);
    const key = name === "test" ? apiKeyTest : apiKeyProd;
    const items = Array.from({ length: 200 }, () => ({ count: 1 }));

    const responses = await Promise.all(
      Array.from({ length: 40 }, () =>
        call("POST", "/plant/trees/batch", { key, body: { items } }),
      ),
    );

    t.deepEqual(new Set(responses.map(({ status }) => status)), new Set([200]));
    const { body } = await call("GET", "/plant/trees?created_at=2100-01-01", { key });
    t.is(body["total_planted_trees"], 8000);
  });
}
