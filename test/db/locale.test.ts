import type { ExecutionContext } from "ava";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { migrate } from "../../db/migrate.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import type { TestStore } from "../stores/startStoreApi.ts";
import {
  appUrlOf,
  copyDatabase,
  createEmptyDatabase,
  openClient,
  openTestPool,
  testWithDatabase,
} from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";

const test = testWithDatabase();

test("no index compares texts in the order of a locale, except to search parts of them", async (t) => {
  const { db } = t.context;

  const names = await db.anyFirst(sql.type(z.strictObject({ name: z.string() }))`
    SELECT indexrelid::regclass::text AS name
    FROM pg_index
    JOIN pg_class ON pg_class.oid = indexrelid
    JOIN pg_am ON pg_am.oid = relam
    WHERE relnamespace = 'public'::regnamespace
      -- The words and the groups of characters of a search decide nothing.
      AND amname <> 'gin'
      AND EXISTS (
        SELECT
        FROM unnest(indcollation::oid[]) AS collation_oid
        WHERE collation_oid NOT IN (0, '"C"'::regcollation)
      )
    ORDER BY 1
  `);

  t.deepEqual(names, []);
});

/** Texts that the two locales order differently: the second one ignores punctuation and puts digits after letters. */
const KEYS = ["-", "#", "order-", "order", "1-", "1", "a", "A", "é", "e\u0301", "_"].flatMap(
  (stem) => Array.from({ length: 8 }, (_, index) => `${stem}${index + 8}`),
);
const BEFORE = "en-US";
const AFTER = "en-US-u-ka-shifted-kr-latn-digit";

/** Sends requests with each of the keys, and returns whether each was a replay. */
const sendAll = async (
  { call }: Pick<Awaited<ReturnType<typeof startStandaloneApi>>, "call">,
  { post }: Pick<Awaited<ReturnType<typeof startStoreApi>>, "post">,
  { key, store }: { readonly key: string; readonly store: TestStore },
): Promise<readonly boolean[]> => {
  const replayed: boolean[] = [];
  for (const [index, idempotencyKey] of KEYS.entries()) {
    const kind = index % 2 === 0 ? "/plant/trees" : "/rescue/plastic_bottles";
    const body = { count: 1, idempotency_key: idempotencyKey, attribution: idempotencyKey };
    const { headers } = await call("POST", kind, { key, body });
    replayed.push(headers.get("Idempotent-Replayed") === "true");
  }
  const oldest = z
    .array(z.object({ id: z.string() }))
    .parse((await call("GET", "/plant/trees", { key })).body["tree_details"])
    .at(-1);
  for (const idempotencyKey of KEYS.slice(0, 20)) {
    const { headers } = await call("POST", "/refund/trees", {
      key,
      body: { id: oldest?.id, count: 1, idempotency_key: idempotencyKey },
    });
    replayed.push(headers.get("Idempotent-Replayed") === "true");
    const { headers: ofShop } = await post(
      "/app/api/plant",
      { ...store.live, "Idempotency-Key": encodeURIComponent(idempotencyKey) },
      { trees: 1, order_id: idempotencyKey },
    );
    replayed.push(ofShop.get("Idempotent-Replayed") === "true");
  }
  return replayed;
};

const changeLocale = async (t: ExecutionContext, ownerUrl: string): Promise<void> => {
  const admin = await openClient(t, ownerUrl);
  await admin.query(
    "UPDATE pg_database SET datlocale = $1 WHERE datname = current_database() AND datlocale = $2",
    [AFTER, BEFORE],
  );
};

test("keys, attributions and orders are found when the database's locale orders texts differently", async (t) => {
  const ownerUrl = await createEmptyDatabase(
    t,
    `TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C' LOCALE_PROVIDER icu ICU_LOCALE '${BEFORE}'`,
  );
  // The template's migration has the role of the programs.
  await copyDatabase(t);
  const databaseUrl = appUrlOf(new URL(ownerUrl).pathname.slice(1));
  await migrate(ownerUrl, { appUrl: databaseUrl });
  const first = await openTestPool(t, databaseUrl);
  const { apiKeyProd: key } = await createTestOrganization(first);
  const store = await createTestStore(first, { balanceCents: 100_000 });
  const standalone = await startStandaloneApi(t, { db: first });
  const shop = await startStoreApi(t, { db: first });
  await standalone.call("POST", "/plant/trees", { key, body: { count: 1000 } });
  const original = await sendAll(standalone, shop, { key, store });
  t.true(original.every((isReplay) => !isReplay));

  await changeLocale(t, ownerUrl);
  const db = await openTestPool(t, databaseUrl);
  const { call } = await startStandaloneApi(t, { db });
  const { get, post } = await startStoreApi(t, { db });

  const repeated = await sendAll({ call }, { post }, { key, store });
  const written = repeated.filter((isReplay) => !isReplay);
  t.deepEqual(written, []);
  for (const [index, attribution] of KEYS.entries()) {
    const [path, name] =
      index % 2 === 0
        ? ["/plant/trees", "tree_details"]
        : ["/rescue/plastic_bottles", "bottle_details"];
    const query = new URLSearchParams({ attribution_key: attribution });
    const { body } = await call("GET", `${path}?${query.toString()}`, { key });
    t.like(body, { [name]: { length: 1 } }, attribution);
  }
  for (const order of KEYS.slice(0, 20)) {
    const query = new URLSearchParams({ order_id: order });
    const { body } = await get(`/app/api/plant?${query.toString()}`, store.live);
    t.is(body["count"], 1, order);
  }
});
