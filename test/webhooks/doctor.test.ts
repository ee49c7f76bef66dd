import type { ExecutionContext } from "ava";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { readJson, runImpact } from "../cli/runImpact.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { answer } from "./startReceiver.ts";
import { setUpWebhooks } from "./webhookScene.ts";

const test = testWithDatabase();

const findings = z.array(z.object({ check: z.string(), status: z.string(), detail: z.string() }));

/** Returns what doctor says of webhooks. */
const diagnose = async (t: ExecutionContext<DatabaseContext>) => {
  const { databaseUrl } = t.context;
  const run = await runImpact(["doctor", "--json"], { env: { DATABASE_URL: databaseUrl } });
  const found = findings.parse(readJson(run));
  const find = (name: string) => found.find(({ check }) => check === name);
  return {
    endpoints: find("webhook endpoints"),
    backlogs: find("webhook backlogs"),
    deliveries: find("webhook deliveries"),
  };
};

const minutesAgo = (minutes: number): string =>
  new Date(Date.now() - minutes * 60_000).toISOString();

// One scene, because doctor looks at all endpoints of a database.
test("doctor names disabled endpoints, a growing backlog and the oldest undelivered delivery, each with a command", async (t) => {
  const { db } = t.context;
  const { endpoint, receiver, record, deliver } = await setUpWebhooks(t);
  const { id, url } = endpoint;

  t.like(await diagnose(t), {
    endpoints: { status: "ok", detail: "none is disabled because of its responses" },
    backlogs: { status: "ok", detail: "none grows" },
    deliveries: { status: "ok", detail: "none is undelivered" },
  });

  receiver.respond(answer(500));
  for (let index = 0; index < 12; index += 1) {
    await record(`event-${index}`);
  }
  await deliver();
  const growing = await diagnose(t);
  t.is(growing.backlogs?.status, "warning");
  t.regex(
    growing.backlogs?.detail ?? "",
    /grows: 12 deliveries are pending, and 12 of the last hour's 12; see `impact webhook deliveries/u,
  );
  t.is(growing.deliveries?.status, "ok", "the oldest is young");

  await db.query(sql.typeAlias("void")`
    UPDATE webhook_delivery
    SET created_at = ${minutesAgo(90)}, due_at = ${minutesAgo(-60)}
    WHERE endpoint_id = ${id}
  `);
  const old = await diagnose(t);
  t.is(old.backlogs?.status, "ok", "nothing was added in the last hour");
  t.is(old.deliveries?.status, "warning");
  t.true(old.deliveries?.detail.includes(`to ${url}; see \`impact webhook deliveries ${id}`));

  await db.query(sql.typeAlias("void")`
    UPDATE webhook_delivery SET due_at = ${minutesAgo(10)} WHERE endpoint_id = ${id}
  `);
  const unattended = await diagnose(t);
  t.is(unattended.deliveries?.status, "wrong");
  t.regex(unattended.deliveries?.detail ?? "", /due for 10 minutes, and no worker makes it/u);

  receiver.respond(answer(410));
  await deliver();
  const disabled = await diagnose(t);
  t.is(disabled.endpoints?.status, "warning");
  t.regex(
    disabled.endpoints?.detail ?? "",
    new RegExp(
      `^1 is disabled because of failures, .*\`impact webhook enable ${id}\`, then \`impact webhook recover ${id} --since 2`,
      "u",
    ),
  );
  t.like(disabled.deliveries, { status: "ok", detail: "none is undelivered" });
});
