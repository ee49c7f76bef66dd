import { once } from "node:events";
import { text } from "node:stream/consumers";
import Koa from "koa";
import bodyParser from "koa-bodyparser";
import { reportReady } from "../../runtime/readyMessage.ts";

/*
 * The baseline of the API: the framework and the body parser, and nothing of the service. It parses a registration and
 * responds with JSON of about the same length, and it serves a text that it was given by PUT from memory.
 */

let stored = "";

const app = new Koa();
app.use(async (ctx, next) => {
  if (ctx.method === "PUT") {
    stored = await text(ctx.req);
    ctx.status = 204;
  } else if (ctx.method === "GET") {
    ctx.type = "json";
    ctx.body = stored;
  } else {
    await next();
  }
});
app.use(bodyParser());
app.use((ctx) => {
  ctx.body = {
    total_planted_trees: 1,
    total_planted_trees_month: 1,
    tree_details: [
      {
        id: "00000000-0000-4000-8000-000000000000",
        refunded: false,
        created_at: "2026-01-01T00:00:00.000Z",
        fractional_count: 0,
        ...(typeof ctx.request.body === "object" && ctx.request.body),
      },
    ],
  };
});

const server = app.listen(0, "127.0.0.1");
await once(server, "listening");
const address = server.address();
const port = typeof address === "object" ? (address?.port ?? 0) : 0;
reportReady({ standalone: `http://127.0.0.1:${port}` });
// It ends with the benchmark.
process.once("disconnect", () => process.exit());
