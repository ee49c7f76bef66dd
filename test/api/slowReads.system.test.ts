import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { lockTable } from "../support/lockWaits.ts";
import { eventually, startProgram } from "../support/programs.ts";

const test = testWithDatabase();

test.serial(
  "blocked reads delay neither writes nor another account's reads, and end with a 503",
  async (t) => {
    const { db, databaseUrl } = t.context;
    const flooding = await createTestOrganization(db);
    const other = await createTestOrganization(db);
    const { urls } = await startProgram(t, "api/main.ts", {
      DATABASE_URL: databaseUrl,
      DATABASE_POOL_SIZE: "2",
      LOG_LEVEL: "silent",
    });
    const call = async (key: string, path: string, body?: object) => {
      const response = await fetch(`${urls["standalone"]}${path}`, {
        headers: { authorization: key, "content-type": "application/json" },
        ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
      });
      return {
        status: response.status,
        retryAfter: response.headers.get("retry-after"),
        body: await response.json(),
      };
    };
    const listDonations = () => call(flooding.apiKeyTest, "/charities/donations");
    t.like(await listDonations(), { status: 200 });
    const lock = await lockTable(t, databaseUrl, "donation");

    let listsDone = 0;
    const lists = Promise.all(
      Array.from({ length: 6 }, () =>
        listDonations().finally(() => {
          listsDone += 1;
        }),
      ),
    );
    await eventually(async () => (await lock.countWaiting()) === 1);
    const planted = await call(flooding.apiKeyTest, "/plant/trees", { count: 1 });
    const summary = await call(other.apiKeyTest, "/evidence");

    t.is(planted.status, 200);
    t.is(summary.status, 200);
    t.is(listsDone, 0, "neither waited for the lists to time out");
    const responses = await lists;
    t.deepEqual(new Set(responses.map(({ status }) => status)), new Set([503]));
    t.true(responses.every(({ retryAfter }) => retryAfter === "1"));
    t.true(
      responses.some(
        ({ body }) =>
          JSON.stringify(body) ===
          '{"error":"the query takes too long; narrow its filters, for example to an id, an email address or a shorter range of days"}',
      ),
    );
    await lock.release();
    t.like(await listDonations(), { status: 200 });
  },
);
