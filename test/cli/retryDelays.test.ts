import { setUpSending } from "../billing/sending/sendingSetup.ts";
import { setCustomer, setUpUsage } from "../billing/repair/usageSetup.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { runImpact } from "./runImpact.ts";

// Serial, because the command and the sender serve everything that waits in the database of the file.
const test = testWithDatabase();

test.serial(
  "usage retry ends the delays of an organization's usage, and of all, and the sender sends it",
  async (t) => {
    const { databaseUrl } = t.context;
    const setup = await setUpSending(t, 3);
    const { organizations, deps, pass, reportOnce, double } = setup;
    const [failing, delayed, ready] = organizations;
    if (!failing || !delayed || !ready) {
      throw new Error("There are fewer than three organizations.");
    }
    const retry = async (...args: readonly string[]): Promise<void> => {
      const run = await runImpact(["usage", "retry", ...args], {
        env: { DATABASE_URL: databaseUrl },
        clock: deps.clock,
      });
      t.is(run.exitCode, 0, run.stderr);
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

    await retry(failing.stream.accountId, "--dry-run");
    await reportOnce();
    t.is(failing.billed(), 0);
    await retry(failing.stream.accountId);
    await reportOnce();
    t.deepEqual(
      organizations.map(({ billed }) => billed()),
      [2, 0, 0],
    );

    await retry("--all");
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
  },
);

test.serial("usage retry says that nothing is sent while usage is held", async (t) => {
  const scene = await setUpUsage(t);
  const { impact } = scene;
  await setCustomer(scene);
  scene.double.control.addFault({
    kind: "respond",
    status: 400,
    body: { error: { type: "invalid_request_error", message: "Refused for the test." } },
  });
  await scene.register(3);
  await scene.drain();
  const [failed = ""] = await scene.failedEvents();
  t.is((await impact("usage", "hold", "--reason", "upgrade", "--as", "ada")).exitCode, 0);

  for (const args of [[failed], [scene.id], [scene.id, "--json"]]) {
    const { exitCode, stderr } = await impact("usage", "retry", ...args);
    t.is(exitCode, 0, stderr);
    if (args[0] === failed) {
      t.regex(stderr, /Nothing is sent: usage is held by ada: upgrade\. .*`impact usage resume`/u);
    }
    t.notRegex(stderr, /workers? (?:will )?send|within seconds|sent again/iu);
  }
  const resumed = await impact("usage", "resume");
  t.is(resumed.exitCode, 0, resumed.stderr);
  t.regex(resumed.stdout, /^Ended the hold of ada \(upgrade\)\. The workers send usage within/u);
  await scene.drain();
  t.is(scene.billed(), 3);
});

test.serial("usage retry without open usage says so", async (t) => {
  const { db, databaseUrl } = t.context;
  const { id } = await createTestOrganization(db);
  const run = await runImpact(["usage", "retry", id], { env: { DATABASE_URL: databaseUrl } });
  t.is(run.exitCode, 0);
  t.regex(run.stderr, /Nothing has failed/u);
});
