import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { SERVICE } from "../../domain/accounts/audit.ts";
import { systemClock } from "../../domain/clock.ts";
import { identifyProcess } from "../../embedded/processIdentity.ts";
import { writeRunFile } from "../../embedded/runFile.ts";
import { createBilling } from "../../providers/billing/createBilling.ts";
import { connectStripe } from "../../providers/billing/stripe/connectStripe.ts";
import { updateOrganization } from "../../services/accounts/updateOrganization.ts";
import { refundRegistration } from "../../services/registrations/refundRegistration.ts";
import { createRegistrationWriter } from "../../services/registrations/createRegistrationWriter.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { eventually, startProgram } from "../support/programs.ts";
import { listed, setUp, startSender } from "./workflowSetup.ts";
import type { Scene } from "./workflowSetup.ts";
import { readJson, runImpact } from "./runImpact.ts";
import type { Run } from "./runImpact.ts";

// Serial, because a worker serves everything that waits in the database of the file.
const test = testWithDatabase();

test.serial("workflows are listed by type, status and organization", async (t) => {
  const scene = await setUp(t);
  const { impact } = scene;
  const one = await startSender(scene);
  const other = await startSender(scene);
  const list = async (...filter: readonly string[]): Promise<readonly string[]> => {
    const run = await impact("workflow", "list", "--json", ...filter);
    t.is(run.exitCode, 0, run.stderr);
    return listed.parse(readJson(run)).map(({ workflow_id: id }) => id);
  };
  // Temporal's list is eventually consistent.
  await eventually(async () => (await list()).length === 2);
  t.deepEqual(await list("--org", one.accountId), [one.workflowId]);
  t.deepEqual(await list("--org", other.accountId, "--status", "running"), [other.workflowId]);
  t.deepEqual(await list("--org", other.accountId, "--status", "completed"), []);
  t.is((await list("--type", "usageSender")).length, 2);
  t.deepEqual(await list("--type", "o'clock"), []);
  const shortened = await impact("workflow", "list", "--limit", "1");
  t.is(shortened.stdout.trimEnd().split("\n").length, 2);
  t.regex(shortened.stderr, /Showing the first 1\. To see more, raise --limit\./u);
});

test.serial("a workflow is terminated once, with its reason", async (t) => {
  const scene = await setUp(t);
  const { impact } = scene;
  const { workflowId } = await startSender(scene);
  t.like(readJson(await impact("workflow", "show", workflowId, "--json")), {
    workflow_id: workflowId,
    type: "usageSender",
    status: "RUNNING",
    result: null,
    failure: null,
  });
  const run = await impact(
    "workflow",
    "terminate",
    workflowId,
    "--reason",
    "moved to another queue",
  );
  t.is(run.exitCode, 0);
  t.like(readJson(await impact("workflow", "show", workflowId, "--json")), {
    status: "TERMINATED",
    failure: "moved to another queue",
  });
  t.is((await impact("workflow", "terminate", workflowId, "--reason", "again")).exitCode, 3);
});

test.serial("an unknown workflow exits with code 3", async (t) => {
  const { impact } = await setUp(t);
  for (const args of [
    ["workflow", "show", "refund-nothing"],
    ["workflow", "terminate", "refund-nothing", "--reason", "x"],
  ]) {
    const run = await impact(...args);
    t.is(run.exitCode, 3);
    t.regex(run.stderr, /refund-nothing/u);
  }
});

const findings = z.array(
  z.strictObject({ check: z.string(), status: z.string(), detail: z.string() }),
);

const diagnose = async (
  impact: Scene["impact"],
): Promise<{ readonly exitCode: number; readonly of: (check: string) => string | undefined }> => {
  const run = await impact("doctor", "--json");
  const list = findings.parse(readJson(run));
  return {
    exitCode: run.exitCode,
    of: (check) => {
      const finding = list.find(({ check: name }) => name === check);
      return finding && `${finding.status}: ${finding.detail}`;
    },
  };
};

test.serial(
  "doctor and workflow show follow a refund through an outage of Stripe until it completes",
  async (t) => {
    const { db } = t.context;
    const { settings } = await setUp(t);
    const double = await startStripeDouble();
    t.teardown(double.close);
    const env = {
      ...settings,
      STRIPE_SECRET_KEY: double.secretKey,
      STRIPE_API_BASE: double.url,
    };
    const impact = (...args: readonly string[]): Promise<Run> => runImpact(args, { env });
    const fresh = await diagnose(impact);
    t.is(fresh.exitCode, 1);
    t.regex(fresh.of("database") ?? "", /^ok: PostgreSQL/u);
    t.regex(fresh.of("clock") ?? "", /^ok/u);
    t.regex(fresh.of("Temporal") ?? "", /^ok/u);
    t.regex(fresh.of("worker (background)") ?? "", /^wrong: no worker polls/u);
    t.regex(fresh.of("Stripe") ?? "", /^wrong: Stripe has no meter/u);
    t.regex(fresh.of("failed usage") ?? "", /^ok/u);
    const { customerId } = double.control.addSubscriber({});

    await startProgram(t, "worker/main.ts", env);
    await eventually(async () => (await diagnose(impact)).exitCode === 0);

    double.control.addFault({ kind: "server_error", times: 1_000_000 });
    const { id } = await createTestOrganization(db, { stripeCustomerId: customerId });
    const { registration } = await createRegistrationWriter({ db, clock: systemClock }).register(
      registrationOf(id, { count: 5 }),
    );
    // The registration is being sent before it is refunded, so that both must be sent.
    await eventually(
      async () =>
        (await db.oneFirst(sql.type(z.strictObject({ count: z.bigint() }))`
        SELECT count(*) FROM meter_event WHERE account_id = ${id} AND state = 'sending'
      `)) > 0n,
    );
    const { refundId } = await refundRegistration(
      { db, clock: systemClock, billing: createBilling({ db, stripe: null }) },
      { accountId: id, mode: "live", kind: "tree" },
      { id: registration.id, count: 2, reason: null, idempotencyKey: null },
    );
    const shown = z.looseObject({
      status: z.string(),
      pending_activities: z.array(
        z.looseObject({
          activity: z.string(),
          attempt: z.int(),
          last_failure: z.string().nullable(),
          next_attempt_at: z.iso.datetime().nullable(),
        }),
      ),
    });
    const show = async (): Promise<z.output<typeof shown> | null> => {
      const run = await impact("workflow", "show", refundId, "--json");
      return run.exitCode === 0 ? shown.parse(readJson(run)) : null;
    };
    await eventually(async () => {
      const [activity] = (await show())?.pending_activities ?? [];
      return activity?.last_failure !== null && activity?.last_failure !== undefined;
    });
    const human = await impact("workflow", "show", refundId);
    t.regex(human.stdout, /PENDING ACTIVITY +ATTEMPT/u);
    t.regex(human.stdout, /confirmRefund/u);

    double.control.clearFaults();
    await eventually(async () => (await show())?.status === "COMPLETED");
    t.is(
      double.control.usage({ customerId }).reduce((sum, { value }) => sum + value, 0),
      3,
    );
  },
);

test.serial("doctor reports failed usage and a rejected Stripe key", async (t) => {
  const { db, databaseUrl } = t.context;
  const { settings } = await setUp(t);
  const { id } = await createTestOrganization(db);
  await db.query(sql.typeAlias("void")`
    INSERT INTO meter_event
      (account_id, mode, meter, second, sequence, quantity, identifier, processor, state, sealed_at)
    VALUES (${id}, 'live', 'tree', 1, 1, 1, ${`u1:${id}:live:tree:1:1`}, 'stripe', 'rejected', now())
  `);
  const double = await startStripeDouble();
  t.teardown(double.close);
  const found = await diagnose((...args) =>
    runImpact(args, {
      env: {
        ...settings,
        DATABASE_URL: databaseUrl,
        STRIPE_SECRET_KEY: "sk_test_other",
        STRIPE_API_BASE: double.url,
      },
    }),
  );
  t.is(found.exitCode, 1);
  t.regex(found.of("failed usage") ?? "", /^wrong: 1 meter event; /u);
  t.regex(found.of("Stripe") ?? "", /^wrong: .*API [Kk]ey/u);
  t.false(found.of("Stripe")?.includes("sk_test_other"));
});

test.serial("doctor reports usage that waits for a Stripe key", async (t) => {
  const { impact } = await setUp(t);
  await createTestOrganization(t.context.db, { stripeCustomerId: "cus_waiting" });

  t.regex(
    (await diagnose(impact)).of("Stripe") ?? "",
    /^wrong: STRIPE_SECRET_KEY is not set here, and \d+ organizations? ha.* a Stripe customer/u,
  );
});

test.serial(
  "doctor reports customers, charity providers and prices with which usage or requests would fail",
  async (t) => {
    const { db } = t.context;
    const { settings } = await setUp(t);
    const double = await startStripeDouble();
    t.teardown(double.close);
    await createBilling({
      db,
      stripe: connectStripe({ secretKey: double.secretKey, apiBase: double.url }),
    }).prepare();
    await createTestOrganization(db, { name: "Unknown", stripeCustomerId: "cus_nobody" });
    const { id } = await createTestOrganization(db, { name: "Bare" });
    await updateOrganization({ db, clock: systemClock, actor: SERVICE }, id, {
      charityProvider: "pledge",
    });
    const env = {
      ...settings,
      STRIPE_SECRET_KEY: double.secretKey,
      STRIPE_API_BASE: double.url,
      STRIPE_DONATION_FLAT_PRICE: "price_flat",
    };

    const found = await diagnose((...args) => runImpact(args, { env }));

    t.regex(found.of("Stripe customers") ?? "", /^wrong: .*Unknown: No such customer/u);
    t.regex(found.of("charity providers") ?? "", /^wrong: PLEDGE_API_KEY is not set here/u);
    t.regex(
      found.of("donation prices") ?? "",
      /^wrong: STRIPE_DONATION_FLAT_PRICE is set and ignored, because STRIPE_DONATION_METERED_PRICE/u,
    );
  },
);

test.serial("doctor does not check the APIs of an npm start with another database", async (t) => {
  const { settings } = await setUp(t);
  const folder = await mkdtemp(join(tmpdir(), "impact-doctor-"));
  t.teardown(() => rm(folder, { recursive: true }));
  const identity = identifyProcess(process.pid);
  if (!identity) {
    t.fail("the test's process is not found");
    return;
  }
  await writeRunFile(folder, {
    ...identity,
    temporalUiUrl: null,
    apiUrl: "http://127.0.0.1:1",
    storeUrl: "http://127.0.0.1:1",
    databaseUrl: "postgres://impact_app@127.0.0.1:1/other",
    databaseOwnerUrl: "postgres://impact@127.0.0.1:1/other",
    databaseReaderUrl: null,
    temporalAddress: "127.0.0.1:1",
    temporalNamespace: "default",
  });

  const found = await diagnose((...args) =>
    runImpact(args, { env: { ...settings, DATA_DIR: folder } }),
  );

  t.regex(found.of("APIs") ?? "", /^skipped/u);
  t.regex(found.of("settings") ?? "", /DATABASE_URL is another database's/u);
});

test.serial("doctor says that Stripe is not configured even if the database is down", async (t) => {
  const { settings } = await setUp(t);
  const env = { ...settings, DATABASE_URL: "postgres://impact@127.0.0.1:1/impact" };

  const found = await diagnose((...args) => runImpact(args, { env }));

  t.regex(found.of("database") ?? "", /^wrong/u);
  t.regex(found.of("Stripe") ?? "", /^skipped: STRIPE_SECRET_KEY is not set here/u);
});

test.serial("doctor reports every unreachable service, not only the first", async (t) => {
  const run = await runImpact(["doctor", "--json"], {
    env: {
      DATABASE_URL: "postgres://impact@127.0.0.1:1/impact",
      TEMPORAL_ADDRESS: "127.0.0.1:1",
      STRIPE_SECRET_KEY: "sk_test_x",
      STRIPE_API_BASE: "http://127.0.0.1:1",
    },
  });
  t.is(run.exitCode, 1);
  const wrong = findings
    .parse(readJson(run))
    .filter(({ status }) => status === "wrong")
    .map(({ check }) => check);
  t.deepEqual(wrong, ["database", "Temporal", "Stripe"]);
});
