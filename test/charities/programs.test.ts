import { z } from "zod";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { openNamespace, startProgram } from "../support/programs.ts";

const test = testWithDatabase();

const answer = z.looseObject({ total_donations: z.number().optional() });

test("the programs search and donate at once, with nothing but a database and Temporal", async (t) => {
  const { namespace } = await openNamespace(t);
  const { apiKeyTest: key } = await createTestOrganization(t.context.db);
  const settings = {
    DATABASE_URL: t.context.databaseUrl,
    TEMPORAL_NAMESPACE: namespace,
    // The donations of the first moments fail, as told below.
    LOG_LEVEL: "silent",
  };
  const [{ urls }] = await Promise.all([
    startProgram(t, "api/main.ts", settings),
    startProgram(t, "worker/main.ts", settings),
  ]);
  const call = async (path: string, body?: object) => {
    const response = await fetch(`${urls["standalone"]}${path}`, {
      headers: { authorization: key, "content-type": "application/json" },
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
    });
    return { status: response.status, body: answer.parse(await response.json()) };
  };

  const found = await call("/charities/search?name=one%20tree%20planted");
  t.like(found, { status: 200, body: { total_items: 1 } });
  const donation = { amount_cents: 250, ein: "46-4664562", idempotency_key: "k" };
  // The worker's first moments belong to its bundle: a 500 has recorded nothing and may be repeated.
  let recorded = await call("/charities/donate", donation);
  while (recorded.status === 500) {
    recorded = await call("/charities/donate", donation);
  }

  t.like(recorded, { status: 200, body: { charity_name: "One Tree Planted", total_donations: 1 } });
  t.like(await call("/charities/donations"), { body: { total_items: 1 } });
});
