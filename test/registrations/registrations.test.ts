import { createMovableClock } from "../support/movableClock.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, setLimits } from "../support/factories.ts";
import { eachKind, KIND_NAMES, registrationsIn } from "../api/contract.ts";
import { startStandaloneApi, startApiOf } from "../api/startStandaloneApi.ts";

const test = testWithDatabase();

const forBothKinds = eachKind(test);

forBothKinds("the month's total starts at 0 with each month in UTC", async (t, kind) => {
  const { path, total, month } = KIND_NAMES[kind];
  const clock = createMovableClock("2026-01-31T23:59:59.999Z");
  const { call, key } = await startApiOf(t, { clock });
  await call("POST", path, { key, body: { count: 5 } });

  clock.set("2026-02-01T00:00:00.000Z");

  t.like((await call("GET", path, { key })).body, { [total]: 5, [month]: 0 });
  const { body } = await call("POST", path, { key, body: { count: 2 } });
  t.like(body, { [total]: 7, [month]: 2 });
});

forBothKinds("fractional counts are stored if they are enabled", async (t, kind) => {
  const { path, total } = KIND_NAMES[kind];
  const { call } = await startStandaloneApi(t, t.context);
  const { apiKeyProd: key } = await createTestOrganization(t.context.db, {
    fractionalCounting: true,
  });

  const { body } = await call("POST", path, { key, body: { count: 2, fractional_count: 1.25 } });

  t.like(registrationsIn(body, kind)[0], { count: 2, fractional_count: 1.25 });
  t.is(body[total], 2);
  const without = await call("POST", path, { key, body: { count: 3 } });
  t.like(registrationsIn(without.body, kind)[0], { count: 3, fractional_count: 3 });
  const list = await call("GET", path, { key });
  t.deepEqual(
    registrationsIn(list.body, kind).map((each) => each.fractional_count),
    [3, 1.25],
  );
});

test("a refused request uses nothing of a limit, and its error is not that of a limit", async (t) => {
  const { db } = t.context;
  const { call, id, key } = await startApiOf(t);
  await setLimits(db, id, { countPerDay: 2 });
  const register = (body: object) => call("POST", "/plant/trees", { key, body });

  const refused = await register({ count: 3, fractional_count: 2.5, idempotency_key: "a" });
  t.is(refused.status, 400);
  t.regex(String(refused.body["error"]), /^fractional_count: .*not enabled/u);
  t.is((await register({ count: 2 })).status, 200);
});

test("a fractional count, even 0, is rejected by name if it is not enabled", async (t) => {
  const { call, key } = await startApiOf(t);

  const { status, body } = await call("POST", "/plant/trees", {
    key,
    body: { count: 2, fractional_count: 0 },
  });

  t.is(status, 400);
  t.regex(String(body["error"]), /^fractional_count: .*not enabled/u);
});
