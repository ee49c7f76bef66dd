import Koa from "koa";
import { Pool } from "pg";
import { serveApp } from "./support/serveApp.ts";

/*
 * The baseline of reads: the framework, the driver and a prepared statement for the same records. It has no keys, limits,
 * validation, totals or log.
 */

const COLUMNS =
  "id, count, fractional_count, created_at, idempotency_key, metadata, attribution, refunded_count";

const STATEMENTS: Readonly<Record<string, string>> = {
  "/page": `SELECT ${COLUMNS} FROM registration WHERE account_id = $1 AND mode = 'live' AND kind = 'tree'
    ORDER BY created_at DESC, id DESC LIMIT 20`,
  "/attribution": `SELECT ${COLUMNS} FROM registration WHERE account_id = $1 AND mode = 'live' AND kind = 'tree'
    AND attribution = 'newsletter' AND attribution <> '' ORDER BY created_at DESC, id DESC LIMIT 20`,
  "/events": `SELECT ${COLUMNS}, kind FROM registration WHERE account_id = $1 AND mode = 'live'
    AND usage_batch IS NOT NULL ORDER BY transaction_id, id LIMIT 10`,
  "/one": `SELECT ${COLUMNS} FROM registration WHERE id = $1`,
};

const pool = new Pool({ connectionString: process.env["DATABASE_URL"], max: 10 });
const app = new Koa();
app.use(async (ctx) => {
  const text = STATEMENTS[ctx.path];
  if (text !== undefined) {
    const { rows } = await pool.query({ name: ctx.path, text, values: [ctx.querystring] });
    ctx.body = { tree_details: rows };
  }
});

await serveApp(app);
