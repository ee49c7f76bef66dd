import { once } from "node:events";
import { text } from "node:stream/consumers";
import Router from "@koa/router";
import Koa from "koa";
import bodyParser from "koa-bodyparser";
import { GroupCommit } from "../../db/batching/groupCommit.ts";
import { openPool } from "../../db/pools/pool.ts";
import { insertRegistrations } from "../../modules/registrations/registrations.sql.ts";
import type { RegistrationEntry } from "../../modules/registrations/registrations.sql.ts";
import { newId } from "../../runtime/newId.ts";
import { reportReady } from "../../runtime/readyMessage.ts";

/*
 * The baseline of the API: the framework, its router and its body parser, and nothing of the service. It serves a text that
 * it was given by PUT from memory, and parses a registration and responds with JSON of about the same length. With a
 * database, it first writes the registration by the API's statement and group commit, with no check of what arrived. Each
 * key gets one of the accounts.
 */

type Body = Pick<RegistrationEntry, "count" | "attribution" | "metadata"> & {
  readonly idempotency_key: string;
};

const accountIds = (process.env["ACCOUNT_IDS"] ?? "").split(",");
const accounts = new Map<string, string>();

const accountOf = (key: string): string => {
  const accountId = accounts.get(key) ?? accountIds[accounts.size % accountIds.length] ?? "";
  accounts.set(key, accountId);
  return accountId;
};

const databaseUrl = process.env["DATABASE_URL"];
const db = databaseUrl === undefined ? null : await openPool(databaseUrl);

const writes = new GroupCommit<RegistrationEntry, number>({
  accountOf: ({ accountId }) => accountId,
  write: async (entries) => {
    const inserted = db && (await insertRegistrations(db, entries, new Date()));
    return entries.map(() => inserted?.totals.size ?? 0);
  },
});

const write = (key: string, { idempotency_key: idempotencyKey, ...body }: Body): Promise<number> =>
  writes.submit({
    ...body,
    id: newId(),
    accountId: accountOf(key),
    mode: "live",
    kind: "tree",
    fractionalCount: 0,
    idempotencyKey,
    isLimited: false,
  });

let stored = "";

const router = new Router();
router.put("/", async (ctx) => {
  stored = await text(ctx.req);
  ctx.status = 204;
});
router.get("/", (ctx) => {
  ctx.type = "json";
  ctx.body = stored;
});
router.post("/plant/trees", bodyParser(), async (ctx) => {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it is not checked.
  const body = ctx.request.body as Body;
  const total = db === null ? 1 : await write(ctx.get("authorization"), body);
  ctx.body = {
    total_planted_trees: total,
    total_planted_trees_month: total,
    tree_details: [
      {
        id: "00000000-0000-4000-8000-000000000000",
        refunded: false,
        created_at: "2026-01-01T00:00:00.000Z",
        fractional_count: 0,
        ...body,
      },
    ],
  };
});

const server = new Koa().use(router.routes()).listen(0, "127.0.0.1");
await once(server, "listening");
const address = server.address();
const port = typeof address === "object" ? (address?.port ?? 0) : 0;
reportReady({ standalone: `http://127.0.0.1:${port}` });
// It ends with the benchmark.
process.once("disconnect", () => process.exit());
