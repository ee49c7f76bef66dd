import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { takePermit } from "../../db/rateLimits.ts";
import { sql } from "../../db/sql.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { startProgram } from "../support/programs.ts";

const test = testWithDatabase();

const LIMIT = { requests: 20, windowMs: 1000 };

test("of two hundred concurrent requests exactly twenty are permitted", async (t) => {
  // A minute, so that the machine's speed does not matter.
  const limit = { requests: 20, windowMs: 60_000 };
  const granted = await Promise.all(
    Array.from({ length: 200 }, () => takePermit(t.context.db, "burst", limit)),
  );
  t.is(granted.filter(Boolean).length, 20);
});

test("within any second at most twenty requests are permitted, however they are spread", async (t) => {
  const { db } = t.context;
  const instantRow = z.strictObject({ instants: z.array(z.string()) });
  const granted = new Set<string>();
  const press = async (): Promise<void> => {
    while (granted.size <= 60) {
      if (await takePermit(db, "steady", LIMIT)) {
        const { instants } = await db.one(sql.type(instantRow)`
          SELECT array(
            SELECT to_char(permitted, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') FROM unnest(permitted_at) AS permitted
          ) AS instants
          FROM rate_limit
          WHERE bucket = 'steady'
        `);
        for (const instant of instants) {
          granted.add(instant);
        }
      }
      await sleep(5);
    }
  };
  await Promise.all([press(), press(), press()]);

  const micros = [...granted]
    .toSorted()
    .map((instant) => Date.parse(instant) * 1000 + Number(instant.slice(-4, -1)));
  for (const [index, instant] of micros.entries()) {
    const twentyLater = micros[index + 20];
    if (twentyLater !== undefined) {
      t.true(twentyLater - instant >= 1_000_000);
    }
  }
});

test("a turn that is refused costs nothing", async (t) => {
  const limit = { requests: 1, windowMs: 300 };
  t.true(await takePermit(t.context.db, "one", limit));
  for (let asked = 0; asked < 10; asked += 1) {
    await takePermit(t.context.db, "one", limit);
  }
  await sleep(350);
  t.true(await takePermit(t.context.db, "one", limit));
});

test("after the database's clock was set back by an hour exactly twenty requests are permitted", async (t) => {
  const { db } = t.context;
  const limit = { requests: 20, windowMs: 60_000 };
  for (let request = 0; request < 20; request += 1) {
    await takePermit(db, "set-back", limit);
  }
  await db.query(sql.typeAlias("void")`
    UPDATE rate_limit
    SET permitted_at = array(
      SELECT permitted + interval '1 hour' FROM unnest(permitted_at) AS permitted ORDER BY permitted
    )
    WHERE bucket = 'set-back'
  `);

  const granted = await Promise.all(
    Array.from({ length: 50 }, () => takePermit(db, "set-back", limit)),
  );

  t.is(granted.filter(Boolean).length, 20);
});

test("the twenty-first request of a key at an endpoint is a 429 that says when to come back", async (t) => {
  const { db } = t.context;
  const { call } = await startStandaloneApi(t, {
    db,
    // A longer second, so that the machine's speed does not matter.
    rateWindowMs: 60_000,
  });
  const { apiKeyTest: key, apiKeyProd: other } = await createTestOrganization(db);
  const endpoints = [
    ["GET", "/charities/search"],
    ["POST", "/charities/donate"],
    ["GET", "/charities/donations"],
    ["POST", "/charities/subscribe"],
  ] as const;

  for (const [method, path] of endpoints) {
    const answers = await Promise.all(
      Array.from({ length: 25 }, () => call(method, path, { key })),
    );
    const limited = answers.filter(({ status }) => status === 429);
    t.is(limited.length, 5, path);
    t.true(limited.every(({ headers }) => headers.get("Retry-After") === "1"));
    t.deepEqual(limited[0]?.body, { error: "rate limit exceeded" });
    t.not((await call(method, path, { key: other })).status, 429, "each key has its own");
  }
  const refunds = await Promise.all(
    Array.from({ length: 30 }, () => call("POST", "/refund/donations", { key, body: {} })),
  );
  t.true(refunds.every(({ status }) => status === 400));
});

test("requests with an invalid key are rejected before the rate limit", async (t) => {
  const { call } = await startStandaloneApi(t, { db: t.context.db, rateWindowMs: 60_000 });

  const responses = await Promise.all(
    Array.from({ length: 25 }, () => call("GET", "/charities/search", { key: "wrong" })),
  );

  t.deepEqual([...new Set(responses.map(({ status }) => status))], [403]);
});

test("two API processes grant twenty between them", async (t) => {
  const { db, databaseUrl } = t.context;
  const { apiKeyTest: key } = await createTestOrganization(db);
  const settings = { DATABASE_URL: databaseUrl };
  const programs = await Promise.all([
    startProgram(t, "api/main.ts", settings),
    startProgram(t, "api/main.ts", settings),
  ]);
  const ask = async (api: string): Promise<number> => {
    const response = await fetch(`${api}/charities/donations`, { headers: { authorization: key } });
    await response.arrayBuffer();
    return response.status;
  };
  const apis = programs.map(({ urls }) => urls["standalone"] ?? "");
  const started = Date.now();
  const statuses = await Promise.all(
    Array.from({ length: 60 }, (_, index) => ask(apis[index % 2] ?? "")),
  );
  const seconds = Math.floor((Date.now() - started) / 1000);

  t.deepEqual(
    statuses.filter((status) => status !== 200 && status !== 429),
    [],
  );
  t.true(statuses.includes(429));
  const granted = statuses.filter((status) => status === 200).length;
  // Twenty, and on a machine that was slow twenty more for each whole second.
  t.true(granted >= 20 && granted <= 20 * (seconds + 1), `${granted} in ${seconds} s`);
});
