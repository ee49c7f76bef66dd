import { Client } from "pg";
import { z } from "zod";
import { renderEvidenceSummary } from "../../../api/endpoints/presentEvidenceSummary.ts";
import { renderTreeEvidence } from "../../../api/endpoints/presentTreeEvidence.ts";
import { sql } from "../../../db/sql.ts";
import { createSummaryReader } from "../../../modules/planting/createSummaryReader.ts";
import { clearExpiredResponses } from "../../../modules/planting/clearCachedResponses.ts";
import { readTreeEvidence } from "../../../modules/planting/readTreeEvidence.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { STAGE_MS } from "../../support/planting.ts";
import { createAndPlace, startEvidenceApi } from "./evidenceApi.ts";

const test = testWithDatabase();

test.serial("clients may cache evidence once the order is no longer polled", async (t) => {
  const { setup, read } = await startEvidenceApi(t);
  const id = await setup.register(3);
  await createAndPlace(setup);
  await setup.pass(2 * STAGE_MS);
  const planted = await read(`/evidence/tree/${id}`);
  t.is(planted.headers.get("Cache-Control"), "private, no-cache");
  t.not(planted.headers.get("ETag"), null);
  await setup.pass(STAGE_MS);
  const { json, headers } = await read(`/evidence/tree/${id}`);
  t.is(json.status, "planted_and_verified");
  t.is(headers.get("Cache-Control"), "private, max-age=2592000");
});

test.serial("a cached response is rendered again for another public base URL", async (t) => {
  const { setup } = await startEvidenceApi(t);
  const id = await setup.register(3);
  await createAndPlace(setup);
  await setup.pass(3 * STAGE_MS);
  for (const base of ["https://one.example", "https://two.example", "https://one.example"]) {
    const deps = { ...setup.deps, publicBaseUrl: () => base };
    const request = {
      accountId: setup.organization.id,
      mode: "live",
      id,
    } as const;
    const { body } = await readTreeEvidence(deps, request, renderTreeEvidence);
    const readSummary = createSummaryReader(deps, renderEvidenceSummary);
    const summary = await readSummary("live");
    for (const text of [body, summary.body]) {
      const origins = text.match(/https:\/\/[a-z]+\.example/gu) ?? [];
      t.deepEqual([...new Set(origins)], [base]);
    }
    t.is((await readTreeEvidence(deps, request, renderTreeEvidence)).body, body);
    t.deepEqual(await readSummary("live"), summary);
  }
});

test.serial("refunds before and after the order change the cached evidence", async (t) => {
  const { setup, read } = await startEvidenceApi(t);
  const id = await setup.register(3);
  const path = `/evidence/tree/${id}`;
  const before = await read(path);
  t.is(before.json.timeline?.[0]?.["description"], "The trees are registered.");
  await setup.refund(id, 3);
  const after = await read(path);
  t.is(after.json.status, "registered");
  t.is(
    after.json.timeline?.[0]?.["description"],
    "The trees were registered, and refunded in full before they were ordered.",
  );

  const orderedId = await setup.register(3);
  await createAndPlace(setup);
  const refundedCounts: unknown[] = [];
  for (const count of [0, 1, 2]) {
    if (count > 0) {
      await setup.refund(orderedId, count);
    }
    const { text, json } = await read(`/evidence/tree/${orderedId}`);
    t.is((await read(`/evidence/tree/${orderedId}`)).text, text);
    refundedCounts.push(json.refunded_count);
  }
  t.deepEqual(refundedCounts, [0, 1, 3]);
});

test.serial(
  "concurrent reads of cached evidence return each tree's own, and nothing to others",
  async (t) => {
    const { setup, url, read } = await startEvidenceApi(t);
    const other = await createTestOrganization(t.context.db);
    const ids: string[] = [];
    for (const count of [1, 2, 3, 4, 5]) {
      ids.push(await setup.register(count));
    }
    await createAndPlace(setup);
    const texts = new Map<string, string>();
    for (const id of ids) {
      texts.set(id, (await read(`/evidence/tree/${id}`)).text);
    }
    t.is(new Set(texts.values()).size, ids.length);

    const reads = Array.from({ length: 40 }, async (_, index) => {
      const id = ids[index % ids.length] ?? "";
      const [own, inTest, ofOther] = await Promise.all([
        read(`/evidence/tree/${index % 2 === 0 ? id : id.toUpperCase()}`),
        read(`/evidence/tree/${id}`, { mode: "test" }),
        fetch(`${url}/evidence/tree/${id}`, { headers: { Authorization: other.apiKeyProd } }),
      ]);
      return [own.text === texts.get(id), inTest.status, ofOther.status];
    });

    for (const outcome of await Promise.all(reads)) {
      t.deepEqual(outcome, [true, 404, 404]);
    }
  },
);

test.serial(
  "evidence that is requested after a refund says so, whatever is being read meanwhile",
  async (t) => {
    const { setup, read } = await startEvidenceApi(t);
    const id = await setup.register(2);
    await createAndPlace(setup);
    await setup.pass(3 * STAGE_MS);
    const path = `/evidence/tree/${id}`;
    t.is((await read(path)).json.status, "planted_and_verified");
    await setup.pass(STAGE_MS);

    // A read whose query is running meanwhile must not answer the later one.
    const earlier = Array.from({ length: 20 }, () => read(path));
    await setup.refund(id, 1);
    const later = await read(path);
    await Promise.all(earlier);

    t.is(later.json.refunded_count, 1);
  },
);

test.serial("expired responses are deleted, except those that are being replaced", async (t) => {
  const { db, databaseUrl } = t.context;
  const { setup } = await startEvidenceApi(t);
  const store = (prefix: string, count: number, expiresAt: string) =>
    db.query(sql.typeAlias("void")`
      INSERT INTO cached_response (key, base_url, revision, body, stored_at, expires_at)
      SELECT ${prefix} || number, '', 1, '', now(), ${expiresAt}::timestamptz
      FROM generate_series(1, ${count}) AS number
    `);
  await store("expired/", 2001, setup.clock.now().toISOString());
  await store("valid/", 3, "2100-01-01T00:00:00.000Z");
  const storing = new Client({ connectionString: databaseUrl });
  await storing.connect();
  t.teardown(() => storing.end());
  await storing.query("BEGIN; SELECT FROM cached_response WHERE key = 'expired/7' FOR UPDATE");

  t.is(await clearExpiredResponses(setup.deps, new AbortController().signal), 2000);

  t.deepEqual(
    await db.anyFirst(sql.type(z.strictObject({ key: z.string() }))`
      SELECT key FROM cached_response WHERE key ~ '^(expired|valid)/' ORDER BY key
    `),
    ["expired/7", "valid/1", "valid/2", "valid/3"],
  );
});

test.serial("evidence of the largest registration is shown after its refund", async (t) => {
  const { setup, read } = await startEvidenceApi(t);
  const id = await setup.register(Number.MAX_SAFE_INTEGER);
  await createAndPlace(setup);
  await setup.refund(id, Number.MAX_SAFE_INTEGER);
  const first = await read(`/evidence/tree/${id}`);
  t.is(first.status, 200);
  t.like(await read(`/evidence/tree/${id}`), { status: 200, text: first.text });
});
