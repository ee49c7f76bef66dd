import { updateStore } from "../../../modules/stores/stores.sql.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestStore, rowsIn, startStoreApiOf, startTwoStoreApis } from "../startStoreApi.ts";
import { EIN, readStoreState } from "../storeState.ts";

const test = testWithDatabase();

const WRITES = {
  plant: {
    path: "/app/api/plant",
    body: { trees: 2, customer_name: "Ann", order_id: "#1" },
    otherBody: { trees: 3 },
    list: ["/app/api/plant", "trees"],
  },
  plastic: {
    path: "/app/api/plastic",
    body: { bottles: 2, order_id: "#1" },
    otherBody: { bottles: 3 },
    list: ["/app/api/plastic", "plastics"],
  },
  donate: {
    path: "/app/api/charity/donate",
    body: { charity_id: EIN, amount_dollars: 1.15 },
    otherBody: { charity_id: EIN, amount_dollars: 1.16 },
    list: ["/app/api/charity/donations", "donations"],
  },
  refund: {
    path: "/app/api/refund",
    body: { type: "tree", quantity: 3, reason: "test" },
    otherBody: { type: "tree", quantity: 4 },
    list: null,
  },
} as const;

const STOCKED = { store: { balanceCents: 10_000 } };

for (const [operation, { path, body, otherBody, list }] of Object.entries(WRITES)) {
  test(`${operation}: of two bodies with one key, sent at the same time to two processes, one writes, its repetitions get the same bytes and id, and the other is rejected`, async (t) => {
    const { db } = t.context;
    const apiOf = await startTwoStoreApis(t, { db });
    const store = await createTestStore(db, STOCKED.store);
    await apiOf(0).post("/app/api/plant", store.live, { trees: 10 });
    const before = await readStoreState(db, store.id);
    const headers = { ...store.live, "Idempotency-Key": "once" };

    const responses = await Promise.all(
      Array.from({ length: 60 }, async (_, index) => {
        const isOther = index % 4 > 1;
        const post = () => apiOf(index).post(path, headers, isOther ? otherBody : body);
        let response = await post();
        // On a slow machine a request may wait too long. Clients repeat it.
        while (response.status === 503) {
          response = await post();
        }
        return { ...response, isOther };
      }),
    );

    const written = responses.filter(({ status }) => status === 200);
    t.is(written.length, 30);
    t.is(new Set(written.map(({ text }) => text)).size, 1);
    t.is(written.filter(({ replayed }) => replayed === "true").length, 29);
    for (const { status, body: response, isOther } of responses) {
      const isRejected = isOther !== written[0]?.isOther;
      t.is(status, isRejected ? 400 : 200);
      t.is(response["code"], isRejected ? "INVALID_PARAMETER" : undefined);
    }
    const after = await readStoreState(db, store.id);
    t.like(after, { entries: before.entries + 1, responses: 1, brokenLinks: 0 });
    t.is(after.remaining, after.totals);
    const [record] = list ? rowsIn((await apiOf(0).get(list[0], store.live)).body, list[1]) : [];
    const ids = new Set(written.map((response) => response.headers.get("Record-Id")));
    t.deepEqual([...ids], [record?.["id"] ?? null]);
  });
}

test("the order of fields, whitespace and aliases do not make another body", async (t) => {
  const { post, store } = await startStoreApiOf(t, STOCKED);
  const headers = { ...store.live, "Idempotency-Key": "key" };

  const first = await post("/app/api/plant", headers, '{"trees":1,"order_id":"7"}');
  const again = await post("/app/api/plant", headers, '{ "order_id": "7",\n "trees": 1 }');
  t.like(again, { text: first.text, replayed: "true" });

  await post("/app/api/charity/donate", headers, { charity_id: EIN, amount_dollars: 2 });
  const alias = await post("/app/api/charity/donate", headers, { charity_id: EIN, amount: 2 });
  t.is(alias.headers.get("Idempotent-Replayed"), "true");
});

test("a rejected write leaves its key free: bad input, a spent balance, too few units, an unknown charity", async (t) => {
  const { post, store, state } = await startStoreApiOf(t, { store: { balanceCents: 100 } });
  const headers = { ...store.live, "Idempotency-Key": "key" };

  t.is((await post("/app/api/plant", headers, { trees: -1 })).status, 400);
  t.is((await post("/app/api/plant", headers, { trees: 3 })).status, 402);
  t.is((await post("/app/api/plant", headers, { trees: 2 })).status, 200);
  t.is((await post("/app/api/refund", headers, { type: "tree", quantity: 3 })).status, 400);
  t.is((await post("/app/api/refund", headers, { type: "tree", quantity: 2 })).status, 200);
  const nowhere = { charity_id: "999999999", amount: 0.5 };
  t.is((await post("/app/api/charity/donate", headers, nowhere)).status, 400);
  const charity = { charity_id: EIN, amount: 0.5 };
  t.is((await post("/app/api/charity/donate", headers, charity)).status, 200);
  t.like(await state(), { responses: 3, balance: 50, remaining: 0 });
});

test("a write is replayed after the balance is spent and the price has gone up; a key has a store and a mode", async (t) => {
  const { db, post, store, state } = await startStoreApiOf(t, { store: { balanceCents: 50 } });
  const other = await createTestStore(db, { balanceCents: 50 });
  const key = { "Idempotency-Key": "key" };
  const plant = async (headers: Readonly<Record<string, string>>) => {
    const { status, text, replayed } = await post("/app/api/plant", headers, { trees: 1 });
    return [status, text, replayed === "true"] as const;
  };

  const [status, text] = await plant({ ...store.live, ...key });
  await updateStore(db, store.id, { treePriceCents: 75 });

  t.is(status, 200);
  t.deepEqual(await plant({ ...store.live, ...key }), [200, text, true]);
  t.is((await plant(store.live))[0], 402);
  t.deepEqual(await plant({ ...store.test, ...key }), [200, text, false]);
  t.deepEqual(await plant({ ...other.live, ...key }), [200, text, false]);
  t.like(await state(), { balance: 0, registrations: 2 });
});

test("when a feature is disabled, earlier writes are replayed, other features work, and new writes are rejected until it is enabled", async (t) => {
  const { db, get, post, store, state } = await startStoreApiOf(t, STOCKED);
  const headers = { ...store.live, "Idempotency-Key": "key" };
  for (const [operation, feature, shown] of [
    ["plant", "treePlanting", "tree_planting"],
    ["plastic", "plasticRemoval", "plastic_removal"],
    ["donate", "donations", "donations"],
  ] as const) {
    const { path, body } = WRITES[operation];
    const first = await post(path, headers, body);
    t.is(first.status, 200, operation);
    await updateStore(db, store.id, { [feature]: false });
    const before = await state();

    const again = await post(path, headers, body);
    t.like(again, { status: 200, replayed: "true", text: first.text });
    t.is((await post(path, headers, { ...body, customer_name: "Somebody Else" })).status, 400);
    for (const key of [{}, { "Idempotency-Key": "other" }]) {
      const refused = await post(path, { ...store.live, ...key }, body);
      t.like(refused, { status: 403, body: { code: "FEATURE_DISABLED" } });
    }
    t.deepEqual(await state(), before);
    const all = { tree_planting: true, plastic_removal: true, donations: true };
    const verified = await get("/app/api/verify", store.live);
    t.deepEqual(verified.body["features"], { ...all, [shown]: false });
    const other = operation === "plant" ? WRITES.plastic : WRITES.plant;
    t.is((await post(other.path, store.live, other.body)).status, 200);
    await updateStore(db, store.id, { [feature]: true });
    const enabled = await post(path, { ...store.live, "Idempotency-Key": "other" }, body);
    t.like(enabled, { status: 200, replayed: null });
  }
});

test("a key is any text of at most 1,000 characters; an empty one is ignored", async (t) => {
  const { post, store, state } = await startStoreApiOf(t, STOCKED);
  const plant = (key: string) =>
    post("/app/api/plant", { ...store.live, "Idempotency-Key": key }, { trees: 1 });

  t.is((await plant("k".repeat(1001))).status, 400);
  t.is((await plant("k".repeat(1000))).status, 200);
  t.is((await plant("")).status, 200);
  t.is((await plant("")).status, 200);
  // Clients send text beyond ASCII as UTF-8.
  const accented = Buffer.from("clé-é").toString("latin1");
  t.is((await plant(accented)).status, 200);
  t.is((await plant(accented)).headers.get("Idempotent-Replayed"), "true");
  t.like(await state(), { registrations: 4, responses: 2 });
});

test("invalid fields are rejected by name, and nothing is recorded", async (t) => {
  const { post, store, state } = await startStoreApiOf(t);

  for (const [path, body, field] of [
    ["plant", {}, "trees: required"],
    ["plant", { trees: 2 ** 53 }, `trees: must be at most ${Number.MAX_SAFE_INTEGER}`],
    ["plant", { trees: 1, order_id: 2 ** 53 }, "order_id: must be a string"],
    ["plant", { trees: 1, order_id: "x".repeat(1001) }, "order_id: must be at most"],
    ["plant", { trees: 1, customer_id: 1.5 }, "customer_id"],
    ["plant", { trees: 1, customer_name: "\u0000" }, "customer_name: must be well-formed"],
    ...["idempotency_key", "idempotencyKey", "Idempotency-Key"].flatMap((name) =>
      Object.values(WRITES).map((write) => {
        const message = `${name}: must be given as the header Idempotency-Key`;
        return [
          write.path.slice("/app/api/".length),
          { ...write.body, [name]: "x" },
          message,
        ] as const;
      }),
    ),
    ["charity/donate", { charity_id: EIN, amount: 1, currency: "EUR" }, "currency: must be USD"],
    ["plant", '{"trees": 1e400}', "trees: must be an integer"],
    ["refund", { type: "trees", quantity: 1 }, "type: must be one of tree, plastic, donation"],
    ...["customer_name", "customer_email", "customer_id", "order_id"].flatMap((name) =>
      ["", " \t"].map(
        (empty) =>
          [
            "refund",
            { type: "tree", quantity: 1, order_id: "#1", [name]: empty },
            `${name}: must not be empty; omit it to select the whole store`,
          ] as const,
      ),
    ),
  ] as const) {
    const refused = await post(`/app/api/${path}`, store.test, body);
    t.like(refused, { status: 400, body: { code: "INVALID_PARAMETER" } });
    t.true(String(refused.body["error"]).startsWith(field), String(refused.body["error"]));
  }
  t.like(await state(), { registrations: 0, totals: 0 });
});

for (const [path, field] of [
  ["/app/api/plant", "trees"],
  ["/app/api/plastic", "bottles"],
] as const) {
  test(`a total of ${field} beyond the safe integers is rejected by the field's name`, async (t) => {
    const { post, store } = await startStoreApiOf(t);
    await post(path, store.test, { [field]: Number.MAX_SAFE_INTEGER });

    const responses = await Promise.all([
      post("/app/api/plant", store.test, { trees: 1 }),
      post("/app/api/plastic", store.test, { bottles: 1 }),
    ]);

    const refused = responses
      .filter(({ status }) => status === 400)
      .map(({ body }) => body["error"]);
    const error = `${field}: would increase the account's total to more than 9007199254740991`;
    t.deepEqual(refused, [error]);
  });
}
