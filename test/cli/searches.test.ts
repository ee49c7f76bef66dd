import { readJson, impactOf, runImpact } from "./runImpact.ts";
import { createTestStore, startStoreApi } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";

const test = testWithDatabase();

test("a search that shows customers of stores adds an entry with counts for each store", async (t) => {
  const { db } = t.context;
  const impact = impactOf(t);
  const { post } = await startStoreApi(t, { db });
  const [first, second, unnamed] = [
    await createTestStore(db, { balanceCents: 1000 }),
    await createTestStore(db, { balanceCents: 1000 }),
    await createTestStore(db, { balanceCents: 1000 }),
  ];
  const customer = { customer_name: "Ann Lee", order_id: "#1001" };
  await post("/app/api/plant", first.live, { trees: 1, ...customer });
  await post("/app/api/plant", first.live, { trees: 2, ...customer });
  const donation = { charity_id: "53-0196605", amount_dollars: 1, ...customer };
  await post("/app/api/charity/donate", first.live, donation);
  await post("/app/api/plant", second.live, { trees: 1, order_id: "1001" });
  const planted = await post("/app/api/plant", unnamed.live, { trees: 1 });
  const list = async (store: { readonly id: string }) => {
    const args = ["audit", "list", "--org", store.id, "--action", "find", "--json"];
    return readJson(await impact(...args));
  };

  const options = ["--as", "Ada", "--reason", "ticket 12"];
  const found = await impact("find", "#1001", ...options);
  const other = await impact("find", planted.headers.get("Record-Id") ?? "");

  t.is(found.exitCode, 0, found.stderr);
  t.is(other.exitCode, 0, other.stderr);
  const entry = { action: "find", operator: "Ada", subject: null, reason: "ticket 12" };
  t.like(await list(first), [{ ...entry, details: { registrations: 2, donations: 1 } }]);
  t.like(await list(second), [{ ...entry, details: { registrations: 1, donations: 0 } }]);
  t.deepEqual(await list(unnamed), []);
});

const ID = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";
const BECAUSE = ["--reason", "ticket 12"] as const;

test("what does not exist is named with the command that finds it", async (t) => {
  const env = { DATABASE_URL: t.context.databaseUrl };
  const runs: readonly (readonly [args: readonly string[], message: string])[] = [
    ...[
      ["org", "show", ID],
      ["usage", "list", "--org", ID],
      ["audit", "list", "--org", ID],
      ["evidence", "order", "list", "--org", ID],
    ].map(
      (args) =>
        [
          args,
          `Organization or store ${ID} not found. See impact org list and impact store list.`,
        ] as const,
    ),
    [["key", "revoke", ID, ...BECAUSE], `key ${ID} not found; see \`impact key list\``],
    [
      ["usage", "explain", ID],
      `no organization, registration or order is named ${ID}; search with \`impact find\``,
    ],
    [["usage", "explain", "E9"], "E9 not found; see `impact usage list`"],
    [["usage", "explain", "D9"], "D9 not found; see `impact usage list`"],
    [["refund", ID, ...BECAUSE], `record ${ID} not found; search with \`impact find\``],
    [
      ["evidence", "withdraw", "999", ...BECAUSE],
      "fact 999 not found; see `impact evidence order show`",
    ],
    [
      ["charity", "show", "99-9999999"],
      "EIN 99-9999999 not found in the catalogue. See impact charity search.",
    ],
  ];
  for (const [args, message] of runs) {
    const { exitCode, stderr } = await runImpact(args, { env });
    t.is(exitCode, 3, args.join(" "));
    t.is(stderr, `impact: ${message}\n`);
  }
});

test("a search for charities without a name is a usage error", async (t) => {
  const impact = impactOf(t);
  for (const name of ["", " "]) {
    const { exitCode, stderr } = await impact("charity", "search", name);
    t.is(exitCode, 2);
    t.regex(stderr, /Must be 1 to 1000 characters\./u);
  }
});
