import { setTimeout as delay } from "node:timers/promises";
import type { ExecutionContext } from "ava";
import { WorkflowNotFoundError } from "@temporalio/client";
import type { Client } from "@temporalio/client";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import type { StripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { readBooks } from "../support/books.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually, openNamespace, startProgram } from "../support/programs.ts";

// One after the other: a database belongs to one deployment, whose dispatcher serves all that waits in it.
const test = testWithDatabase();

const plantReply = z.object({ tree_details: z.array(z.object({ id: z.uuid() })) });
const refundReply = z.object({ refund_id: z.string() });

type Deployment = {
  readonly client: Client;
  readonly double: StripeDouble;
  readonly accountId: string;
  readonly startWorker: () => ReturnType<typeof startProgram>;
  readonly startApi: () => ReturnType<typeof startProgram>;
  readonly post: (api: string, path: string, body: unknown) => Promise<Response>;
  /** Stripe's units, all seconds together. */
  readonly billed: () => number;
};

/** An organization on Stripe, with the API and the worker in processes of their own. */
const deploy = async (t: ExecutionContext<DatabaseContext>): Promise<Deployment> => {
  const { db, databaseUrl } = t.context;
  const double = await startStripeDouble();
  t.teardown(double.close);
  const { customerId, subscriptionId } = double.control.addSubscriber({});
  const organization = await createTestOrganization(db, {
    stripeCustomerId: customerId,
    stripeSubscriptionId: subscriptionId,
  });
  const { namespace, client } = await openNamespace(t);
  const settings = {
    DATABASE_URL: databaseUrl,
    TEMPORAL_NAMESPACE: namespace,
    STRIPE_SECRET_KEY: double.secretKey,
    STRIPE_API_BASE: double.url,
  };
  return {
    client,
    double,
    accountId: organization.id,
    startWorker: () => startProgram(t, "worker/main.ts", settings),
    startApi: () => startProgram(t, "api/main.ts", settings),
    post: (api, path, body) =>
      fetch(`${api}${path}`, {
        method: "POST",
        headers: { authorization: organization.apiKeyProd, "content-type": "application/json" },
        body: JSON.stringify(body),
      }),
    billed: () => double.control.usage({ customerId }).reduce((sum, { value }) => sum + value, 0),
  };
};

test.serial(
  "a registration is billed, its refund is zeroed, and the refund's workflow completes",
  async (t) => {
    const { client, startWorker, startApi, post, billed, double } = await deploy(t);
    await startWorker();
    const { urls } = await startApi();
    const api = urls["standalone"] ?? "";

    const planted = await post(api, "/plant/trees", { count: 12 });
    t.is(planted.status, 200);
    const {
      tree_details: [tree],
    } = plantReply.parse(await planted.json());
    await eventually(() => billed() === 12);
    const refunded = await post(api, "/refund/trees", { id: tree?.id });
    t.is(refunded.status, 200);
    const { refund_id: refundId } = refundReply.parse(await refunded.json());

    t.is(refundId, `refund-${tree?.id}`);
    await eventually(() => billed() === 0);
    await eventually(async () => {
      try {
        return (await client.workflow.getHandle(refundId).describe()).status.name === "COMPLETED";
      } catch (error) {
        if (error instanceof WorkflowNotFoundError) {
          return false;
        }
        throw error;
      }
    });
    t.is(new Set(double.control.events().map(({ second }) => second)).size, 1);
  },
);

const hasAttempt = (db: DatabasePool, accountId: string): Promise<boolean> =>
  db.exists(
    sql.typeAlias("void")`SELECT FROM meter_event WHERE account_id = ${accountId} AND attempts > 0`,
  );

const survivesKill = test.macro({
  exec: async (t, fault: { kind: "hang"; applied: boolean }) => {
    const { startWorker, startApi, post, billed, double, accountId } = await deploy(t);
    const { urls } = await startApi();
    const worker = await startWorker();
    double.control.addFault(fault);
    await post(urls["standalone"] ?? "", "/plant/trees", { count: 5 });
    await eventually(() => hasAttempt(t.context.db, accountId));
    // The attempt is on record; now it also reaches Stripe.
    await delay(500);

    await worker.kill();
    await startWorker();

    await eventually(() => billed() === 5 && sends(double) > (fault.applied ? 1 : 0));
    // A second delivery, if there were one, would come with the next passes of the dispatcher.
    await delay(3000);
    t.is(billed(), 5);
    t.is(double.control.overlaps(), 0);
  },
  title: (state = "") => `a worker that is killed ${state} loses and doubles nothing`,
});

const sends = ({ control }: StripeDouble): number =>
  control.calls().filter(({ path }) => path === "/v1/billing/meter_events").length;

test.serial("while its call is under way, not taken yet,", survivesKill, {
  kind: "hang",
  applied: false,
});
test.serial("while its call is under way, taken already,", survivesKill, {
  kind: "hang",
  applied: true,
});

test.serial(
  "an API that is killed with a full queue has recorded what it answered, and a retry records the rest once",
  async (t) => {
    const { startWorker, startApi, post, billed, accountId } = await deploy(t);
    const first = await startApi();
    const requests = Array.from({ length: 2000 }, (_, index) => ({
      count: 1 + (index % 3),
      idempotency_key: `order-${index}`,
    }));
    let answered = 0;
    const someAnswered = Promise.withResolvers<void>();
    const sending = requests.map(async (body) => {
      const response = await post(first.urls["standalone"] ?? "", "/plant/trees", body);
      await response.json();
      answered += 1;
      if (answered === 40) {
        someAnswered.resolve();
      }
    });
    await eventually(() => answered >= 40);
    await first.kill();
    await Promise.allSettled(sending);
    const { registrations } = await readBooks(t.context.db, accountId);
    t.true(registrations >= answered);
    t.true(answered < requests.length, "the kill came too late to test anything");

    const second = await startApi();
    await Promise.all(
      requests.map(async (body) => {
        const response = await post(second.urls["standalone"] ?? "", "/plant/trees", body);
        t.is(response.status, 200);
        await response.json();
      }),
    );
    await startWorker();

    const expected = requests.reduce((sum, { count }) => sum + count, 0);
    await eventually(() => billed() === expected);
    const books = await readBooks(t.context.db, accountId);
    t.is(books.registrations, requests.length);
    t.is(books.total, BigInt(expected));
  },
);
