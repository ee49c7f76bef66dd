import { readFileSync } from "node:fs";
import type { ExecutionContext } from "ava";
import type { FragmentSqlToken } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { guardUsage } from "../../modules/billing/holdUsage.ts";
import { listMeterEvents } from "../../modules/billing/meterEventReports.sql.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { refundRegistration } from "../../modules/registrations/refundRegistration.ts";
import { drainUsage } from "../billing/drainUsage.ts";
import { runImpact } from "../cli/runImpact.ts";
import { REFUSED } from "../stripeDouble/faults.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import { copyDatabase, openTestPool, testWithDatabase } from "../support/database.ts";
import { createTestOrganization, registerFor } from "../support/factories.ts";

/*
 * Runs every command of docs/repair.md, in the order of the page, in a scene for each case.
 */

const test = testWithDatabase();

const LAG_SECONDS = 16 * 60;

const page = readFileSync(new URL("../../docs/repair.md", import.meta.url), "utf8");

/** The cases of the page by their numbers, with the commands of their shell blocks. */
const CASES = new Map(
  [...page.matchAll(/^## (?<number>\d)\. (?<text>[\s\S]*?)(?=^## |(?![\s\S]))/gmu)].map(
    ({ groups }): [string, readonly string[]] => [
      groups?.["number"] ?? "",
      [...(groups?.["text"] ?? "").matchAll(/```sh\n(?<lines>[\s\S]*?)```/gu)].flatMap((block) =>
        (block.groups?.["lines"] ?? "").trim().split(/\n\s*/u),
      ),
    ],
  ),
);

type Scene = Awaited<ReturnType<typeof setUpScene>>;

/** A deployment that is billed through the double. Its database can be copied, which is a restore. */
const setUpScene = async (t: ExecutionContext) => {
  const double = await startStripeDouble(t);
  const { clock, control } = double;
  control.holdClock({ second: Date.UTC(2026, 4, 15, 12) / 1000 });
  const { customerId, subscriptionId } = control.addSubscriber({});
  const open = async (url: string) => {
    // Many of these tests run at the same time.
    const db = await openTestPool(t, url, 4);
    const billing = await double.openBilling(db);
    return { url, db, deps: { db, clock, billing, actor: SERVICE } };
  };
  let side = await open(await copyDatabase(t));
  const { id: accountId } = await createTestOrganization(side.db, {
    clock,
    name: "Green Shop",
    stripeCustomerId: customerId,
    stripeSubscriptionId: subscriptionId,
  });
  await guardUsage(side.deps);
  const stream = { accountId, mode: "live", kind: "tree" } as const;
  const pass = (seconds: number): void => control.advanceClock({ seconds });
  const register = async (count: number): Promise<string> =>
    (await registerFor(side.db, accountId, { clock, count })).id;
  const drain = async (): Promise<void> => {
    pass(5);
    await drainUsage(side.deps, stream);
  };
  return {
    accountId,
    control,
    customerId,
    pass,
    register,
    drain,
    side: () => side,
    restore: (next: typeof side): void => {
      side = next;
    },
    /** Copies the database, and returns both sides opened. */
    fork: async () => {
      await side.db.end();
      const copy = await copyDatabase(t, side.url);
      return { continued: await open(side.url), restored: await open(copy) };
    },
    refund: (id: string, count: number) =>
      refundRegistration(side.deps, stream, { id, count, reason: null, idempotencyKey: null }),
    /** Registers units in a minute of their own, and sends them. */
    send: async (count: number): Promise<string> => {
      pass(60);
      const id = await register(count);
      await drain();
      return id;
    },
    refuse: (times = 1): void => control.addFault({ ...REFUSED, times }),
    /** Returns the names of the latest events, the latest last. */
    events: async (): Promise<readonly string[]> => {
      const ids = await side.db.anyFirst(sql.type(z.strictObject({ id: z.bigint() }))`
        SELECT id FROM meter_event WHERE account_id = ${accountId} ORDER BY id
      `);
      return ids.map((id) => `E${id}`);
    },
    change: async (changes: FragmentSqlToken, names: readonly string[]): Promise<void> => {
      const ids = names.map((name) => BigInt(name.slice(1)));
      await side.db.query(sql.typeAlias("void")`
        UPDATE meter_event SET ${changes} WHERE id = ANY(${sql.array(ids, "int8")})
      `);
    },
    run: (...args: readonly string[]) =>
      runImpact(args, { env: { DATABASE_URL: side.url, ...double.env }, clock }),
  };
};

/** Splits a command line as a shell does, without the program's name. */
const wordsOf = (line: string): readonly string[] =>
  [...line.matchAll(/"(?<quoted>[^"]*)"|(?<plain>\S+)/gu)]
    .map(({ groups }) => groups?.["quoted"] ?? groups?.["plain"] ?? "")
    .slice(1);

type Play = {
  /** What stands for the page's examples, such as E5. */
  readonly names: Readonly<Record<string, string>>;
  /** What happens before a command. */
  readonly before?: Readonly<Record<string, () => Promise<unknown>>>;
  /** The exit codes other than 0. */
  readonly exitCodes?: Readonly<Record<string, readonly number[]>>;
};

const play = async (t: ExecutionContext, scene: Scene, number: string, given: Play) => {
  const lines = CASES.get(number) ?? [];
  t.true(lines.length > 0);
  const outputs: string[] = [];
  for (const line of lines) {
    t.regex(line, /^impact /u);
    await given.before?.[line]?.();
    const words = wordsOf(line).map((word) => given.names[word] ?? word);
    const { exitCode, stdout, stderr } = await scene.run(...words);
    t.true((given.exitCodes?.[line] ?? [0]).includes(exitCode), `${line}\n${stdout}${stderr}`);
    outputs.push(stdout + stderr);
  }
  return outputs;
};

const requireNothingOpen = async (t: ExecutionContext, { run }: Scene): Promise<void> => {
  const overview = await run("usage", "--org", "Green Shop");
  t.is(overview.exitCode, 0, overview.stdout + overview.stderr);
};

const unitsAt = ({ control }: Scene, customerId: string): number =>
  control.usage({ customerId }).reduce((sum, { value }) => sum + value, 0);

const SCENES: Readonly<Record<string, (t: ExecutionContext, scene: Scene) => Promise<void>>> = {
  "1": async (t, scene) => {
    scene.refuse(2);
    await scene.send(3);
    await scene.send(4);
    const [first = "", second = ""] = await scene.events();
    const { customerId, subscriptionId } = scene.control.addSubscriber({});
    const subscriber = { cus_new: customerId, sub_new: subscriptionId };
    await play(t, scene, "1", {
      names: { E5: first, E6: second, ORG_ID: scene.accountId, ...subscriber },
    });
    await scene.drain();
    t.is(unitsAt(scene, customerId), 3);
    await requireNothingOpen(t, scene);
  },
  "2": async (t, scene) => {
    await scene.send(3);
    scene.refuse();
    await scene.send(4);
    const { customerId } = scene.control.addSubscriber({});
    await play(t, scene, "2", { names: { ORG_ID: scene.accountId, cus_right: customerId } });
    await scene.drain();
    t.deepEqual([unitsAt(scene, scene.customerId), unitsAt(scene, customerId)], [3, 4]);
    await requireNothingOpen(t, scene);
  },
  "3": async (t, scene) => {
    await scene.send(3);
    await scene.send(4);
    await scene.send(5);
    const [first = "", second = "", third = ""] = await scene.events();
    await scene.change(sql.fragment`is_late = true`, [first, second]);
    const [last = ""] = CASES.get("3")?.slice(-1) ?? [];
    await play(t, scene, "3", {
      names: { E6: third },
      before: { [last]: () => scene.change(sql.fragment`is_late = true`, [third]) },
    });
    await requireNothingOpen(t, scene);
  },
  "4": async (t, scene) => {
    scene.refuse();
    const registration = await scene.send(5);
    const [usage = ""] = await scene.events();
    await scene.run("usage", "close", usage, "--invoice-item", "ii_1", "--reason", "by hand");
    await scene.refund(registration, 2);
    await scene.drain();
    const [, refund = ""] = await scene.events();
    t.regex((await scene.run("usage")).stdout, /credit owed +-2/u);
    await play(t, scene, "4", { names: { E5: refund } });
    await requireNothingOpen(t, scene);
  },
  "5": async (t, scene) => {
    scene.control.addFault({ kind: "reject_later" });
    await scene.send(5);
    await scene.send(6);
    const { second = 0 } = scene.control.usage({ customerId: scene.customerId }).at(-1) ?? {};
    scene.control.acceptEvent({ customerId: scene.customerId, units: 7, second });
    scene.pass(LAG_SECONDS);
    await scene.run("usage", "reconcile");
    const { db } = scene.side();
    const found = await listMeterEvents(db, { state: "difference", accountId: null, limit: 10 });
    const quantities = found.map(({ quantity }) => quantity).toSorted((a, b) => a - b);
    t.deepEqual(quantities, [-7, 5]);
    const nameOf = (units: number): string =>
      `D${found.find(({ quantity }) => quantity === units)?.id}`;
    await play(t, scene, "5", {
      names: { D17: nameOf(5), D18: nameOf(-7) },
      exitCodes: { "impact usage reconcile": [1] },
    });
    await scene.drain();
    t.is(unitsAt(scene, scene.customerId), 5 + 6 + 7);
    scene.pass(LAG_SECONDS);
    t.is((await scene.run("usage", "reconcile")).exitCode, 0);
    await requireNothingOpen(t, scene);
  },
  "6": async (t, scene) => {
    await scene.send(3);
    // The history that is lost sends an event that the restored one knows, and a registration that it does not.
    scene.pass(60);
    await scene.register(4);
    const { continued, restored } = await scene.fork();
    scene.restore(continued);
    await scene.drain();
    await scene.send(5);
    scene.restore(restored);
    await guardUsage(restored.deps);
    scene.pass(60);
    const outputs = await play(t, scene, "6", {
      names: {},
      before: {
        "impact usage resume": async () => {
          await scene.drain();
          scene.pass(LAG_SECONDS);
          await scene.drain();
          await scene.drain();
        },
        "impact usage reconcile": () => Promise.resolve(scene.pass(LAG_SECONDS)),
        "impact usage": () => scene.drain(),
      },
      exitCodes: { "impact usage reconcile": [1] },
    });
    t.regex(
      outputs[0] ?? "",
      /Nothing was changed\. The command would end the hold of restore guard/u,
    );
    t.regex(outputs[1] ?? "", /Stripe is asked about usage from before/u);
    t.regex(
      outputs[2] ?? "",
      /\[done\] {2}Stripe was asked about .*\n\[next\] {2}Find what the lost/u,
    );
    t.regex(
      outputs.at(-3) ?? "",
      /Ended the hold of .* \(restored disk\)\. Stripe is asked about/u,
    );
    t.regex(outputs.at(-1) ?? "", /Ended the hold of .* \(switchover\)/u);
    t.is(unitsAt(scene, scene.customerId), 3 + 4);
    await requireNothingOpen(t, scene);
  },
  "7": async (t, scene) => {
    await scene.send(3);
    await scene.send(4);
    scene.refuse();
    await scene.send(5);
    const [first = "", second = "", third = ""] = await scene.events();
    await scene.change(
      sql.fragment`state = 'failed', failure = 'unclear', may_be_delivered = true`,
      [first, second, third],
    );
    scene.pass(LAG_SECONDS);
    await play(t, scene, "7", {
      names: { E5: first, E6: second, E7: third, cus_1: scene.customerId },
    });
    await scene.drain();
    t.is(unitsAt(scene, scene.customerId), 3 + 4 + 5);
    await requireNothingOpen(t, scene);
  },
  "8": async (t, scene) => {
    await scene.send(3);
    scene.control.addFault({ kind: "server_error", times: 1000 });
    await scene.send(4);
    await play(t, scene, "8", {
      names: {},
      before: {
        "impact usage retry --all": () => Promise.resolve(scene.control.clearFaults()),
      },
      // Neither Temporal nor a worker belongs to the scene.
      exitCodes: { "impact doctor": [1] },
    });
    await scene.drain();
    t.is(unitsAt(scene, scene.customerId), 3 + 4);
    await requireNothingOpen(t, scene);
  },
};

test("every case of docs/repair.md has a scene, and the page is short", (t) => {
  t.deepEqual([...CASES.keys()], Object.keys(SCENES));
  t.true(page.split(/\s+/u).length <= 1500);
  const inCases = [...CASES.values()].flat().length;
  t.is([...page.matchAll(/^ *impact .*$/gmu)].length, inCases, "each is run");
});

for (const [number, run] of Object.entries(SCENES)) {
  test(`the commands of case ${number} of docs/repair.md repair it`, async (t) => {
    await run(t, await setUpScene(t));
  });
}
