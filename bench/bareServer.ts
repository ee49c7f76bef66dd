import Koa from "koa";
import bodyParser from "koa-bodyparser";
import { serveApp } from "./support/serveApp.ts";

/*
 * The baseline of the whole service: the framework and the body parser, and nothing of the service. It parses a
 * registration and responds with JSON of about the same length.
 */

const app = new Koa();
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

await serveApp(app);
