import { openPool } from "../../db/pool.ts";
import { createHealthChecks } from "../../api/health/createHealthChecks.ts";
import { openTemporalClient } from "../../program/temporalClient.ts";
import { testWithDatabase } from "../support/database.ts";
import { startRelay } from "../support/relay.ts";
import { startStandaloneApi } from "./startStandaloneApi.ts";

const test = testWithDatabase();

/** A port that nothing listens on. */
const NOWHERE = "127.0.0.1:1";

const TEMPORAL = process.env["TEST_TEMPORAL_ADDRESS"];

const down = () => Promise.reject(new Error("down"));

test("a process is alive whatever it depends on", async (t) => {
  const { call } = await startStandaloneApi(t, {
    db: t.context.db,
    checks: { database: down, temporal: down },
  });

  const { status, body } = await call("GET", "/healthz");

  t.is(status, 200);
  t.deepEqual(body, { status: "ok" });
});

test("it is ready when the database and Temporal answer", async (t) => {
  const checks = createHealthChecks({
    db: t.context.db,
    temporal: openTemporalClient(TEMPORAL === undefined ? {} : { address: TEMPORAL }),
  });
  const { call } = await startStandaloneApi(t, { db: t.context.db, checks });

  const { status, body } = await call("GET", "/readyz");

  t.is(status, 200);
  t.deepEqual(body, { status: "ok", database: "ok", temporal: "ok" });
});

test("it is ready without Temporal, and says that Temporal is away", async (t) => {
  const checks = createHealthChecks({
    db: t.context.db,
    temporal: openTemporalClient({ address: NOWHERE }),
  });
  const { call } = await startStandaloneApi(t, { db: t.context.db, checks });

  const { status, body } = await call("GET", "/readyz");

  t.is(status, 200);
  t.deepEqual(body, { status: "ok", database: "ok", temporal: "unreachable" });
});

test("it is not ready while its database is away", async (t) => {
  const relay = await startRelay(t, t.context.databaseUrl);
  const db = await openPool(relay.url);
  t.teardown(() => db.end());
  const { call } = await startStandaloneApi(t, {
    db: t.context.db,
    checks: createHealthChecks({ db, temporal: openTemporalClient({ address: NOWHERE }) }),
  });
  t.is((await call("GET", "/readyz")).status, 200);

  relay.cut();
  const { status, body } = await call("GET", "/readyz");

  t.is(status, 503);
  t.deepEqual(body, { status: "unavailable", database: "unreachable", temporal: "unreachable" });
});

test("those who ask at the same time share one look", async (t) => {
  let looks = 0;
  const { call } = await startStandaloneApi(t, {
    db: t.context.db,
    checks: {
      database: async () => {
        looks += 1;
        await new Promise((resolve) => {
          setTimeout(resolve, 500);
        });
      },
      temporal: () => Promise.resolve(),
    },
  });

  const answers = await Promise.all(Array.from({ length: 20 }, () => call("GET", "/readyz")));

  t.true(answers.every(({ status }) => status === 200));
  t.true(looks < 20);
});
