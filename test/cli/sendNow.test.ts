import { z } from "zod";
import { systemClock } from "../../runtime/clock.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import { setUpShards } from "../billing/sending/shardSetup.ts";
import { listedEvent, setCustomer, setUpUsage } from "../billing/repair/usageSetup.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { readJson, runImpact } from "./runImpact.ts";

// Serial, because the command and a shard's sender serve everything that waits in the database of the file.
const test = testWithDatabase();

const results = z.array(
  z.strictObject({
    account_id: z.uuid(),
    mode: z.enum(["live", "test"]),
    meter: z.literal("tree"),
    oldest: z.iso.datetime(),
    attempts: z.int(),
    was_delayed: z.boolean(),
  }),
);

test.serial(
  "usage send-now ends the delays of an organization's usage, and of all, and the shards send it without Temporal",
  async (t) => {
    const { databaseUrl } = t.context;
    const setup = await setUpShards(t, 3);
    const { organizations, deps, pass, reportOnce, double } = setup;
    const [failing, delayed, ready] = organizations;
    if (!failing || !delayed || !ready) {
      throw new Error("There are fewer than three organizations.");
    }
    const sendNow = async (...args: readonly string[]) => {
      const run = await runImpact(["usage", "send-now", "--json", ...args], {
        env: { DATABASE_URL: databaseUrl },
        clock: deps.clock,
      });
      t.is(run.exitCode, 0, run.stderr);
      return Object.fromEntries(
        results
          .parse(readJson(run))
          .map(({ account_id: id, attempts, was_delayed: wasDelayed }) => [
            id,
            { attempts, wasDelayed },
          ]),
      );
    };
    const fail = ({ customerId }: typeof failing) =>
      double.control.addFault({ kind: "server_error", mentioning: customerId, times: 1000 });

    await failing.register(2);
    fail(failing);
    pass(5);
    for (let attempt = 0; attempt < 3; attempt += 1) {
      await reportOnce();
      pass(10);
    }
    await delayed.register(3);
    fail(delayed);
    pass(5);
    await reportOnce();
    await ready.register(4);
    double.control.clearFaults();
    await reportOnce();
    t.deepEqual(
      organizations.map(({ billed }) => billed()),
      [0, 0, 0],
    );

    t.deepEqual(await sendNow("--org", failing.stream.accountId), {
      [failing.stream.accountId]: { attempts: 4, wasDelayed: true },
    });
    await reportOnce();
    t.deepEqual(
      organizations.map(({ billed }) => billed()),
      [2, 0, 0],
    );

    t.deepEqual(await sendNow(), {
      [delayed.stream.accountId]: { attempts: 1, wasDelayed: true },
      [ready.stream.accountId]: { attempts: 0, wasDelayed: false },
    });
    await reportOnce();
    t.deepEqual(
      organizations.map(({ billed }) => billed()),
      [2, 3, 0],
    );
    pass(5);
    await reportOnce();
    t.deepEqual(
      organizations.map(({ billed }) => billed()),
      [2, 3, 4],
    );
    t.deepEqual(await sendNow(), {});
  },
);

test.serial("usage send-now lists the oldest fifty streams, and counts all", async (t) => {
  const { db, databaseUrl } = t.context;
  const writer = createRegistrationWriter({ db, clock: systemClock });
  for (let number = 0; number < 51; number += 1) {
    const { id } = await createTestOrganization(db);
    await writer.register(registrationOf(id, { mode: "test" }));
  }

  const run = await runImpact(["usage", "send-now"], { env: { DATABASE_URL: databaseUrl } });

  t.is(run.exitCode, 0, run.stderr);
  t.is(run.stdout.trim().split("\n").length, 51);
  t.regex(run.stderr, /Only the oldest 50 streams are listed/u);
  t.regex(run.stderr, /send the usage of 51 streams within seconds; 0 of them/u);
});

test.serial(
  "usage retry, reopen and send-now say that nothing is sent while usage is held",
  async (t) => {
    const scene = await setUpUsage(t);
    const { id, double, impact, impactLater } = scene;
    await setCustomer(scene);
    const listIds = async (state: string): Promise<readonly string[]> => {
      const run = await impact("usage", "list", "--state", state, "--org", id, "--json");
      return z
        .array(listedEvent)
        .parse(readJson(run))
        .map(({ meter_event_id: eventId }) => String(eventId));
    };
    double.control.addFault({ kind: "reject_later" });
    await scene.register(6);
    await scene.drain();
    const [lost = ""] = await listIds("delivered");
    double.control.addFault({
      kind: "respond",
      status: 400,
      body: { error: { type: "invalid_request_error", message: "Refused for the test." } },
    });
    await scene.register(3);
    await scene.drain();
    const [failed = ""] = await listIds("failed");
    t.is((await impact("usage", "hold", "--reason", "upgrade", "--as", "ada")).exitCode, 0);

    const runs = [
      await impact("usage", "retry", failed),
      await impactLater("usage", "reopen", lost, "--reason", "lost", "--dry-run"),
      await impactLater("usage", "reopen", lost, "--reason", "lost"),
      await impact("usage", "send-now", "--org", id),
      await impact("usage", "send-now", "--org", id, "--json"),
    ];

    for (const { exitCode, stderr } of runs) {
      t.is(exitCode, 0, stderr);
      t.regex(stderr, /Nothing is sent: usage is held by ada: upgrade\. .*`impact usage release`/u);
      t.notRegex(stderr, /workers? (?:will )?send|within seconds|sent again/iu);
    }
    t.is((await impact("usage", "release")).exitCode, 0);
    await scene.drain();
    t.is(scene.billed(), 9);
  },
);

test.serial("usage send-now without pending usage says so", async (t) => {
  const { db, databaseUrl } = t.context;
  const { id } = await createTestOrganization(db);
  const run = await runImpact(["usage", "send-now", "--org", id], {
    env: { DATABASE_URL: databaseUrl },
  });
  t.is(run.exitCode, 0);
  t.regex(run.stderr, /No usage is pending/u);
  const unknown = await runImpact(
    ["usage", "send-now", "--org", "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11"],
    { env: { DATABASE_URL: databaseUrl } },
  );
  t.is(unknown.exitCode, 3);
});
