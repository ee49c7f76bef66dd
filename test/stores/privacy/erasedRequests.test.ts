import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { impactOf } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import { startStoreApiOf } from "../startStoreApi.ts";
import type { StoreApi } from "../startStoreApi.ts";
import { readStoreState } from "../storeState.ts";

const test = testWithDatabase();

const storedRow = z.strictObject({ operation: z.string(), keys: z.int(), requests: z.int() });

test("an erasure leaves no hash of a customer's requests, and their keys still charge nothing", async (t) => {
  const { db } = t.context;
  const { post, store } = await startStoreApiOf(t, { store: { balanceCents: 10_000 } });
  const writesOf = (order: string) => {
    const customer = { customer_id: `customer of ${order}`, order_id: order };
    const writes = [
      ["plant", { trees: 3, ...customer }],
      ["plastic", { bottles: 2, ...customer }],
      ["charity/donate", { charity_id: "53-0196605", amount_dollars: 1, ...customer }],
      ["refund", { type: "tree", quantity: 1, customer_id: customer.customer_id }],
      ["refund", { type: "donation", quantity: 1, customer_id: customer.customer_id }],
    ] as const;
    return async (add: object = {}) => {
      const responses: Awaited<ReturnType<StoreApi["post"]>>[] = [];
      for (const [index, [path, body]] of writes.entries()) {
        const key = { "Idempotency-Key": `${order}-${index}` };
        const headers = { ...store.live, ...key };
        responses.push(await post(`/app/api/${path}`, headers, { ...body, ...add }));
      }
      return responses;
    };
  };
  const [send, sendOther] = [writesOf("#48213"), writesOf("#48214")];
  const first = await send();
  await sendOther();
  const before = await readStoreState(db, store.id);

  const forget = ["store", "forget", store.domain, "--order-id", "#48213"];
  t.is((await impactOf(t)(...forget)).exitCode, 0);

  const stored = await db.any(sql.type(storedRow)`
    SELECT operation, count(*)::integer AS keys, count(request_hash)::integer AS requests
    FROM idempotency_key
    WHERE account_id = ${store.id}
    GROUP BY operation
    ORDER BY operation
  `);
  t.deepEqual(stored, [
    { operation: "donate", keys: 2, requests: 1 },
    { operation: "plant", keys: 2, requests: 1 },
    { operation: "plastic", keys: 2, requests: 1 },
    { operation: "refund", keys: 4, requests: 2 },
  ]);
  const replays = await send();
  t.true(replays.every(({ headers }) => headers.get("Idempotent-Replayed") === "true"));
  t.deepEqual(
    replays.map(({ text }) => text),
    first.map(({ text }) => text),
  );
  const changed = { customer_name: "another" };
  t.true((await send(changed)).every(({ status }) => status === 200));
  t.true((await sendOther(changed)).every(({ status }) => status === 400));
  t.deepEqual(await readStoreState(db, store.id), before);
});
