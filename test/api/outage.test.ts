import { openPool } from "../../db/pool.ts";
import { systemClock } from "../../domain/clock.ts";
import { createRegistrationWriter } from "../../services/registrations/createRegistrationWriter.ts";
import { openTestCopies, testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { startRelay } from "../support/relay.ts";
import { startStandaloneApi } from "./startStandaloneApi.ts";

const test = testWithDatabase();

test("without a connection to the database, requests are a 503, and the log has fewer lines than requests", async (t) => {
  const { db, databaseUrl } = t.context;
  const relay = await startRelay(t, databaseUrl);
  const interrupted = await openPool(relay.url);
  t.teardown(() => interrupted.end());
  const { call, logged } = await startStandaloneApi(t, {
    db,
    writer: createRegistrationWriter({ db: interrupted, clock: systemClock }),
  });
  const { apiKeyProd: key } = await createTestOrganization(db);
  relay.cut();

  const responses = await Promise.all(
    Array.from({ length: 50 }, () => call("POST", "/plant/trees", { key, body: { count: 1 } })),
  );

  for (const { status, headers, body } of responses) {
    t.is(status, 503);
    t.is(headers.get("Retry-After"), "1");
    t.deepEqual(body, { error: "the service is temporarily unavailable, try again" });
  }
  const errors = logged().filter((line) => line["level"] === 50);
  t.true(errors.length < 50, `${errors.length} lines`);
  t.regex(String(errors[0]?.["reason"]), /ECONNREFUSED/u);
  t.false("err" in (errors[0] ?? {}));
});

test("a key that cannot be looked up is a 503, not an invalid key", async (t) => {
  const relay = await startRelay(t, t.context.databaseUrl);
  const interrupted = await openPool(relay.url);
  t.teardown(() => interrupted.end());
  const { call } = await startStandaloneApi(t, {
    db: interrupted,
    copies: await openTestCopies(t, t.context.db),
  });
  relay.cut();

  const { status, headers } = await call("GET", "/evidence", {
    key: `impact_prod_${"x".repeat(32)}`,
  });

  t.is(status, 503);
  t.is(headers.get("Retry-After"), "1");
});
